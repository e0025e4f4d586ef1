package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// coreLoss makes the core unreachable, and returns the cells that have lost it and the function that ends the outage.
type coreLoss func(p *play) (cells []int, end func(context.Context) error, err error)

func (p *play) allCells() (cells []int) {
	for i := range p.stage.Cells {
		cells = append(cells, i)
	}
	return cells
}

// freezeCore suspends the core's API server: connections stay open, and no request is answered.
func freezeCore(p *play) ([]int, func(context.Context) error, error) {
	core := p.stage.Core
	end := func(context.Context) error { return core.Thaw(federation.APIServer) }
	return p.allCells(), end, core.Freeze(federation.APIServer)
}

func killCore(p *play) ([]int, func(context.Context) error, error) {
	core := p.stage.Core
	end := func(ctx context.Context) error { return core.Restart(ctx, federation.APIServer) }
	return p.allCells(), end, core.Kill(federation.APIServer)
}

// stallAll holds all data between the cells and the core. It arrives at the end of the outage, so that old requests are applied then.
func stallAll(p *play) ([]int, func(context.Context) error, error) {
	for _, conn := range p.stage.coreProxies(slices.Concat(webhooks(), aggregatorsOf(p))) {
		conn.Stall(proxy.Both)
	}
	return p.allCells(), p.stage.heal, nil
}

// cutOffOne cuts the aggregator of one cell off from the core, and one of the two webhooks, which answer both cells. The other cell still
// moves its share in the core.
func cutOffOne(p *play) ([]int, func(context.Context) error, error) {
	cell := p.random.IntN(len(p.stage.Workers))
	for _, conn := range p.stage.coreProxies([]string{install.WebhookName(0), p.stage.aggregator(p.stage.Workers[cell])}) {
		if err := conn.Cut(proxy.Both); err != nil {
			return nil, nil, err
		}
	}
	return []int{cell}, p.stage.heal, nil
}

// outage returns how long the core is unreachable.
func (p *play) outage(short time.Duration) time.Duration {
	if p.plan.Outage > 0 {
		return p.plan.Outage
	}
	return short
}
