package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/proxy"
)

// blow is what a fault may use: the stage, dice, and the storm that it strikes.
type blow struct {
	*Stage
	random  *rand.Rand
	journal *Journal
}

// fault strikes in the midst of a storm and returns when it has ended.
type fault func(ctx context.Context, b *blow) error

// linger lets a fault last, in steps of which the dice decide how many.
func (b *blow) linger(ctx context.Context, least, most time.Duration) error {
	select {
	case <-time.After(least + time.Duration(b.random.Int64N(int64(most-least)))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *blow) webhook() string { return webhooks()[b.random.IntN(2)] }

func (b *blow) worker() federation.Cluster { return b.Workers[b.random.IntN(len(b.Workers))] }

func goodWeather(ctx context.Context, b *blow) error { return b.journal.await(ctx, 200) }

func killWebhook(ctx context.Context, b *blow) error {
	return b.kill(ctx, b.webhook())
}

func killAggregator(ctx context.Context, b *blow) error {
	return b.kill(ctx, b.aggregator(b.worker()))
}

func (b *blow) kill(ctx context.Context, component string) error {
	if err := b.Breakwater.Kill(component); err != nil {
		return err
	}
	if err := b.linger(ctx, 2*time.Second, 4*time.Second); err != nil {
		return err
	}
	return b.Breakwater.Restart(ctx, component)
}

func freezeWebhook(ctx context.Context, b *blow) error {
	webhook := b.webhook()
	if err := b.Breakwater.Freeze(webhook); err != nil {
		return err
	}
	if err := b.linger(ctx, 3*time.Second, 6*time.Second); err != nil {
		return err
	}
	return b.Breakwater.Thaw(webhook)
}

// replaceAggregator pauses the leader of a cell for longer than its lease, so that a standby takes over, and lets it
// wake up while its successor works.
func replaceAggregator(ctx context.Context, b *blow) error {
	worker := b.worker()
	leader, standby := b.aggregator(worker), b.aggregator(worker)+"-standby"
	if err := b.Breakwater.StandBy(ctx, leader, standby); err != nil {
		return err
	}
	before, err := b.holder(ctx, worker)
	if err != nil {
		return err
	}
	if err := b.Breakwater.Freeze(leader); err != nil {
		return err
	}
	if err := await(ctx, func(ctx context.Context) error {
		if now, err := b.holder(ctx, worker); err != nil || now == before || now == "" {
			return fmt.Errorf("cell %s is led by %q, which is frozen (%w)", worker.Name(), now, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := b.linger(ctx, time.Second, 2*time.Second); err != nil {
		return err
	}
	if err := b.Breakwater.Thaw(leader); err != nil {
		return err
	}
	// Both run for a while. Then the one that took over is killed, and the first has to lead again.
	if err := b.linger(ctx, 2*time.Second, 3*time.Second); err != nil {
		return err
	}
	return b.Breakwater.Kill(standby)
}

// restart kills a part of a cluster, leaves it away for a while and starts it again.
func restart(component federation.Component, cluster func(*blow) federation.Cluster, least, most time.Duration) fault {
	return func(ctx context.Context, b *blow) error {
		faults, err := faultsOf(cluster(b))
		if err != nil {
			return err
		}
		if err := faults.Kill(component); err != nil {
			return err
		}
		if err := b.linger(ctx, least, most); err != nil {
			return err
		}
		return faults.Restart(ctx, component)
	}
}

func core(b *blow) federation.Cluster { return b.Core }

func worker(b *blow) federation.Cluster { return b.worker() }

// disturbCore makes the core slow for all webhooks, then lets nothing through to one of them, then cuts it off.
func disturbCore(ctx context.Context, b *blow) error {
	one := b.ways[way{b.webhook(), b.Core.Name()}]
	steps := []func() error{
		func() error {
			b.eachWebhook(func(p *federation.Proxy) { p.Delay(proxy.Both, 150*time.Millisecond) })
			return nil
		},
		func() error { one.Stall(proxy.Direction(b.random.IntN(3))); return nil },
		func() error { return one.Cut(proxy.Both) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		if err := b.linger(ctx, 2*time.Second, 3*time.Second); err != nil {
			return err
		}
	}
	return b.heal(ctx)
}

// blindAggregator holds back what an aggregator would see of its cell, and lets it all through at once.
func blindAggregator(ctx context.Context, b *blow) error {
	worker := b.worker()
	b.ways[way{b.aggregator(worker), worker.Name()}].Stall(proxy.ToClient)
	if err := b.linger(ctx, 4*time.Second, 8*time.Second); err != nil {
		return err
	}
	return b.heal(ctx)
}

func (b *blow) eachWebhook(do func(*federation.Proxy)) {
	for _, webhook := range webhooks() {
		do(b.ways[way{webhook, b.Core.Name()}])
	}
}

func (b *blow) heal(ctx context.Context) error {
	for w, p := range b.ways {
		if err := p.Heal(ctx); err != nil {
			return fmt.Errorf("heal the way of %s to %s: %w", w.component, w.cluster, err)
		}
	}
	return nil
}
