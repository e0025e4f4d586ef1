package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// fault runs in the middle of a storm and returns when it has ended.
type fault func(ctx context.Context, p *play) error

// waitBetween waits for a random time from least to most.
func (p *play) waitBetween(ctx context.Context, least, most time.Duration) error {
	select {
	case <-time.After(least + time.Duration(p.random.Int64N(int64(most-least)))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *play) webhook() string { return webhooks()[p.random.IntN(2)] }

func (p *play) worker() *local.Cluster {
	return p.stage.Workers[p.random.IntN(len(p.stage.Workers))]
}

func noFault(ctx context.Context, p *play) error { return p.journal.awaitAnswers(ctx, 200) }

func killWebhook(ctx context.Context, p *play) error {
	return p.kill(ctx, p.webhook())
}

func killAggregator(ctx context.Context, p *play) error {
	return p.kill(ctx, p.stage.aggregator(p.worker()))
}

func (p *play) kill(ctx context.Context, component string) error {
	if err := p.stage.Breakwater.Kill(component); err != nil {
		return err
	}
	if err := p.waitBetween(ctx, 2*time.Second, 4*time.Second); err != nil {
		return err
	}
	return p.stage.Breakwater.Restart(ctx, component)
}

func freezeWebhook(ctx context.Context, p *play) error {
	webhook := p.webhook()
	if err := p.stage.Breakwater.Freeze(webhook); err != nil {
		return err
	}
	if err := p.waitBetween(ctx, 3*time.Second, 6*time.Second); err != nil {
		return err
	}
	return p.stage.Breakwater.Thaw(webhook)
}

// replaceAggregator pauses the leader of a cell for longer than its lease, so that a standby takes over, and resumes it while its
// successor works.
func replaceAggregator(ctx context.Context, p *play) error {
	worker := p.worker()
	leader, standby := p.stage.aggregator(worker), p.stage.aggregator(worker)+"-standby"
	if err := p.stage.Breakwater.StartStandby(ctx, leader, standby); err != nil {
		return err
	}
	before, err := p.stage.holder(ctx, worker)
	if err != nil {
		return err
	}
	if err := p.stage.Breakwater.Freeze(leader); err != nil {
		return err
	}
	if err := poll(ctx, func(ctx context.Context) error {
		if now, err := p.stage.holder(ctx, worker); err != nil || now == before || now == "" {
			return fmt.Errorf("the leader of cell %s is still %q, which is frozen (%w)", worker.Name(), now, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := p.waitBetween(ctx, time.Second, 2*time.Second); err != nil {
		return err
	}
	if err := p.stage.Breakwater.Thaw(leader); err != nil {
		return err
	}
	// Both run for a while. Then the standby is killed, and the first one has to lead again.
	if err := p.waitBetween(ctx, 2*time.Second, 3*time.Second); err != nil {
		return err
	}
	return p.stage.Breakwater.Kill(standby)
}

// restart kills a component of a cluster, and starts it again after a while.
func restart(component federation.Component, cluster func(*play) *local.Cluster, least, most time.Duration) fault {
	return func(ctx context.Context, p *play) error {
		faults := cluster(p)
		if err := faults.Kill(component); err != nil {
			return err
		}
		if err := p.waitBetween(ctx, least, most); err != nil {
			return err
		}
		return faults.Restart(ctx, component)
	}
}

// stopCore stops the core's API server until all earlier admissions have taken effect, and longer.
func stopCore(ctx context.Context, p *play) error {
	if err := p.stage.Core.Kill(federation.APIServer); err != nil {
		return err
	}
	end := p.beginOutage("the core was unreachable")
	if err := p.waitBetween(ctx, aMinute, aMinute+time.Second); err != nil {
		return err
	}
	end()
	return p.stage.Core.Restart(ctx, federation.APIServer)
}

// beginOutage begins a time in which no webhook can reserve, so no pod may be removed. The returned function ends it.
func (p *play) beginOutage(description string) (end func()) {
	from := time.Since(p.start)
	return func() { p.outages = append(p.outages, Outage{What: description, From: from, To: time.Since(p.start)}) }
}

func core(p *play) *local.Cluster { return p.stage.Core }

func worker(p *play) *local.Cluster { return p.worker() }
