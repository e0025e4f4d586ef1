package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// degradeConnections makes the core slow for all these components, then stalls the connection of one of them, then cuts it. Each step lasts at least
// each.
func degradeConnections(components func(*play) []string, each time.Duration) fault {
	return func(ctx context.Context, p *play) error {
		all := p.stage.coreProxies(components(p))
		one := all[p.random.IntN(len(all))]
		steps := []func() error{
			func() error {
				for _, conn := range all {
					conn.Delay(proxy.Both, 150*time.Millisecond)
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
			if err := p.waitBetween(ctx, each, each+time.Second); err != nil {
				return err
			}
		}
		return p.stage.heal(ctx)
	}
}

// cutWebhooks cuts all webhooks off from the core. Their caches stay; that must not be enough to admit a removal.
func cutWebhooks(ctx context.Context, p *play) error {
	for _, conn := range p.stage.coreProxies(webhooksOf(p)) {
		if err := conn.Cut(proxy.Both); err != nil {
			return err
		}
	}
	end := p.beginOutage("all webhooks were cut off from the core")
	if err := p.waitBetween(ctx, aMinute, aMinute+time.Second); err != nil {
		return err
	}
	end()
	return p.stage.heal(ctx)
}

// stallAggregator holds the events of an aggregator's cell back, and then delivers them all at once.
func stallAggregator(ctx context.Context, p *play) error {
	worker := p.worker()
	p.stage.proxies[connection{p.stage.aggregator(worker), worker.Name()}].Stall(proxy.ToClient)
	if err := p.waitBetween(ctx, 4*time.Second, 8*time.Second); err != nil {
		return err
	}
	return p.stage.heal(ctx)
}

func webhooksOf(*play) []string { return webhooks() }

func aggregatorsOf(p *play) []string {
	var all []string
	for _, worker := range p.stage.Workers {
		all = append(all, p.stage.aggregator(worker))
	}
	return all
}

func (s *Stage) coreProxies(components []string) []*federation.Proxy {
	var all []*federation.Proxy
	for _, component := range components {
		all = append(all, s.proxies[connection{component, s.Core.Name()}])
	}
	return all
}

func (s *Stage) heal(ctx context.Context) error {
	for conn, proxy := range s.proxies {
		if err := proxy.Heal(ctx); err != nil {
			return fmt.Errorf("heal the connection of %s to %s: %w", conn.component, conn.cluster, err)
		}
	}
	return nil
}
