package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// disturb makes the core slow for all these components, then stalls the connection of one of them, then cuts it. Each step lasts at least
// each.
func disturb(components func(*play) []string, each time.Duration) fault {
	return func(ctx context.Context, p *play) error {
		all := p.toCore(components(p))
		one := all[p.random.IntN(len(all))]
		steps := []func() error{
			func() error {
				for _, way := range all {
					way.Delay(proxy.Both, 150*time.Millisecond)
				}
				return nil
			},
			func() error { one.Stall(proxy.Direction(p.random.IntN(3))); return nil },
			func() error { return one.Cut(proxy.Both) },
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
			if err := p.linger(ctx, each, each+time.Second); err != nil {
				return err
			}
		}
		return p.heal(ctx)
	}
}

// cutWebhooks cuts all webhooks off from the core. Their caches stay; that must not be enough to admit a removal.
func cutWebhooks(ctx context.Context, p *play) error {
	for _, way := range p.toCore(webhooksOf(p)) {
		if err := way.Cut(proxy.Both); err != nil {
			return err
		}
	}
	end := p.silence("all webhooks were cut off from the core")
	if err := p.linger(ctx, aMinute, aMinute+time.Second); err != nil {
		return err
	}
	end()
	return p.heal(ctx)
}

// blindAggregator holds the events of an aggregator's cell back, and then delivers them all at once.
func blindAggregator(ctx context.Context, p *play) error {
	worker := p.worker()
	p.ways[way{p.aggregator(worker), worker.Name()}].Stall(proxy.ToClient)
	if err := p.linger(ctx, 4*time.Second, 8*time.Second); err != nil {
		return err
	}
	return p.heal(ctx)
}

func webhooksOf(*play) []string { return webhooks() }

func aggregatorsOf(p *play) []string {
	var all []string
	for _, worker := range p.Workers {
		all = append(all, p.aggregator(worker))
	}
	return all
}

func (p *play) toCore(components []string) []*federation.Proxy {
	var all []*federation.Proxy
	for _, component := range components {
		all = append(all, p.ways[way{component, p.Core.Name()}])
	}
	return all
}

func (p *play) heal(ctx context.Context) error {
	for w, p := range p.ways {
		if err := p.Heal(ctx); err != nil {
			return fmt.Errorf("heal the way of %s to %s: %w", w.component, w.cluster, err)
		}
	}
	return nil
}
