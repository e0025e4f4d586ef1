package webhook

import (
	"context"
	"fmt"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// refreshForMinReady reads from the core the protectors for which a pod has not been ready for long enough. The clock of this
// replica may be behind that of the aggregator, and its watch may not have shown the count in which the pod became
// available. The newest count contains the time at which every pod in it was available. A pod that is counted later
// becomes available after the request (the readiness race). A forced removal does not depend on that count, and is charged without it.
func (d *decider) refreshForMinReady(ctx context.Context, cell string, r removal.Request, covering []removal.Charge) error {
	for i := range covering {
		c := &covering[i]
		if !c.IsYoung(r, cell, d.now()) {
			continue
		}
		core := d.cores.named(c.Core)
		newest, released, err := core.readLive(ctx, c.Key)
		switch {
		case released:
			continue
		case err != nil && r.IsBreakGlass():
			c.AgeUnknown = true
			continue
		case err != nil:
			return fmt.Errorf("read PodProtector %s of core cluster %q to check minReadySeconds of the pod: %w", c.Key, c.Core, err)
		}
		c.Protector = newest
	}
	return nil
}
