package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// runStorm runs the storm, injects the fault in its middle, and returns when the storm is over.
func (p *play) runStorm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*waitTimeout+2*p.plan.Outage) // a Cell is deleted in two outages
	defer cancel()
	stormCtx, stopStorm := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stopStorm()
	all := &clients{
		journal: p.journal, recorder: p.recorder, number: p.plan.size().clients, pause: p.scenario.pause(), seed: p.random.Uint64(),
		pauseLock: &p.pauseLock,
	}
	running.Go(func() { all.run(stormCtx) })
	running.Go(func() { p.attacks.collect(stormCtx) })
	if err := p.journal.awaitAnswers(ctx, p.plan.size().before); err != nil {
		return fmt.Errorf("begin the storm: %w", err)
	}
	// A cascade during the fault ends all replacement of pods. A later one leaves more pods to the fault.
	early := (p.random.IntN(2) == 0 || p.scenario.earlyCascade) && !p.scenario.lateCascade
	if early {
		running.Go(func() { p.attacks.cascade(stormCtx) })
	}
	p.faultBegan = time.Since(p.start)
	err := p.scenario.fault(ctx, p)
	p.faultEnded = time.Since(p.start)
	if err != nil {
		return fmt.Errorf("inject the fault: %w", err)
	}
	// The cascade runs in any case: a restore brings back Deployments that an early cascade deleted.
	running.Go(func() { p.attacks.cascade(stormCtx) })
	if err := p.replenish(ctx); err != nil {
		return fmt.Errorf("deploy more pods: %w", err)
	}
	select {
	case <-time.After(p.plan.size().after):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// replenish deploys pods that no controller replaces, so that there is budget in any case.
func (p *play) replenish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	more := p.app
	more.Pods = p.plan.size().surplus + p.extraPods
	attempt := 0
	return poll(ctx, func(ctx context.Context) error {
		// An attempt whose answer was lost has created pods with its name.
		attempt++
		more.Instance = fmt.Sprintf("more-%d", attempt)
		return more.DeployBare(ctx, p.stage.Cells)
	})
}

// recover checks that the status becomes true, that all budget can be used, and that no more can.
func (p *play) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := poll(ctx, p.checkStatus); err != nil {
		return fmt.Errorf("the status never matched the pods: %w", err)
	}
	p.statusRecovered = time.Since(p.start)
	if err := poll(ctx, p.consumeBudget); err != nil {
		return fmt.Errorf("budget cannot be consumed: %w", err)
	}
	if err := poll(ctx, p.checkStatus); err != nil {
		return fmt.Errorf("the status does not match the pods after the budget was consumed: %w", err)
	}
	pod, ok := storm.FirstAvailable(p.recorder.Pods())
	if !ok {
		return fmt.Errorf("no pod is available, the floor is %d", p.floor)
	}
	if err := p.journal.Remove(ctx, 0, pod, Delete); storm.OutcomeOf(err) != storm.Denied {
		return fmt.Errorf("a removal at the floor was not denied: %w", errors.Join(err, fmt.Errorf("pod %s", pod.Name)))
	}
	return nil
}

// consumeBudget removes an available pod. It returns an error while more pods than the floor are available.
func (p *play) consumeBudget(ctx context.Context) error {
	total := p.recorder.Now().Total
	pod, ok := storm.FirstAvailable(p.recorder.Pods())
	if total <= p.floor || !ok {
		return nil
	}
	err := p.journal.Remove(ctx, 0, pod, Delete)
	return fmt.Errorf("%d pods are available, the floor is %d; the answer was: %w", total, p.floor, err)
}
