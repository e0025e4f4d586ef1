package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// refreshForMinReady reads from the core the protectors for which a pod has not been ready for long enough. The clock of this
// replica may be behind that of the aggregator, and its watch may not have shown the count in which the pod became
// available. The newest count contains the time at which every pod in it was available. A pod that is counted later
// becomes available after the request (the readiness race).
func (p *Protection) refreshForMinReady(ctx context.Context, cell string, r removal.Request, covering []removal.Charge) error {
	for i := range covering {
		c := &covering[i]
		if !c.IsYoung(r, cell, p.now()) {
			continue
		}
		core := p.core(c.Core)
		newest, err := core.protectors.Read(ctx, c.Key)
		if apierrors.IsNotFound(err) && core.lastLostState(c.Key) == nil {
			continue // the protector was released
		}
		if err != nil {
			return fmt.Errorf("core cluster %q: read PodProtector %s to check minReadySeconds of the pod: %w", c.Core, c.Key, err)
		}
		quota.VoidCountsUntil(newest, core.restoreDetector.LostVersion())
		c.Protector = newest
	}
	return nil
}
