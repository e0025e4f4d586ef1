package review

import (
	"context"
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// refreshForMinReady reads from the core the protectors for which a pod has not been ready for long enough. The clock of this
// replica may be behind that of the aggregator, and its watch may not have shown the count in which the pod became
// available. The newest count contains the time at which every pod in it was available. A pod that is counted later
// becomes available after the request (the readiness race). A forced removal does not depend on that count, and is charged without it.
func (p *Protection) refreshForMinReady(ctx context.Context, cell string, r removal.Request, covering []removal.Charge) error {
	for i := range covering {
		c := &covering[i]
		if !c.IsYoung {
			continue
		}
		newest, released, err := p.cores.Named(c.Core).ReadLive(ctx, c.Key)
		switch {
		case released:
			continue
		case err != nil && r.IsBreakGlass():
			c.AgeUnknown = true
		case err != nil:
			return fmt.Errorf("read PodProtector %s of core cluster %q to check minReadySeconds of the pod: %w", c.Key, c.Core, err)
		default:
			c.Protector = newest
		}
		c.Assess(r, cell, p.now())
	}
	return nil
}

// chargeLater makes pending charges of a break-glass removal, which is admitted although no object decides yet. If the share of a protector cannot be
// read, the charge waits with the protector until it is known which of the two decides.
func (p *Protection) chargeLater(ctx context.Context, cell string, r removal.Request) {
	objects, belongs, err := p.cores.Objects(ctx, cell, r)
	if err != nil {
		return // a core that cannot be read: the protector sees the removal in a later snapshot
	}
	covering, err := removal.WithShares(objects, cell)
	if err != nil {
		covering = slices.DeleteFunc(objects, func(c removal.Charge) bool { return c.Protector.Spec.ShareOf != nil })
	}
	removal.AssessAll(covering, cell, r, p.now())
	charges, _ := removal.ChargesFor(covering, belongs, r)
	p.nodes.resolveDomains(ctx, cell, r, charges)
	attempt := r.Attempt(cell, p.now(), reserve.NewToken())
	for _, c := range charges {
		p.cores.ChargeLater(c, attempt)
	}
}
