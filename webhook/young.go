package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// confirmYoung reads from the core itself the protectors by which a pod has not been ready for long enough. The clock of this replica may
// be behind that of the aggregator, and its watch behind the count by which the pod became available: the newest count has the time at
// which every pod in it was available. A pod that is counted later becomes available after it was asked about (the readiness race).
func (p *Protection) confirmYoung(ctx context.Context, cell string, r removal.Request, covering []removal.Charge) error {
	for i := range covering {
		c := &covering[i]
		if !c.IsYoung(r, cell, p.now()) {
			continue
		}
		core := p.core(c.Core)
		newest, err := core.protectors.Read(ctx, c.Key)
		if apierrors.IsNotFound(err) && core.remembered(c.Key) == nil {
			continue // it was released
		}
		if err != nil {
			return fmt.Errorf("read from core cluster %q whether PodProtector %s counts the pod as ready for long enough: %w", c.Core, c.Key, err)
		}
		quota.VoidUntil(newest, core.past.Lost())
		c.Protector = newest
	}
	return nil
}
