package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// shortOutage and longOutage are the durations of outages without Plan.Outage.
	shortOutage = 30 * time.Second
	longOutage  = 5 * time.Minute
	// outagePause is the average pause of a client in a storm with an outage, which lasts longer than other storms.
	outagePause = 200 * time.Millisecond
	// supplyPause is how often new pods add budget in an outage.
	supplyPause = 2 * time.Second
)

// OutageResult is what an outage of the core has shown.
type OutageResult struct {
	// FirstLocalAdmissionSeconds is the time from the loss of the core until the last cell had admitted a removal that was requested after it.
	FirstLocalAdmissionSeconds *float64 `json:"firstLocalAdmissionSeconds,omitempty"`
	// RejoinSeconds is the time from the return of the core until a cell without budget had used that of another.
	RejoinSeconds *float64 `json:"rejoinSeconds,omitempty"`
	// RolloutCompletes reports whether all rollouts and drains were complete before the return of the core.
	RolloutCompletes *bool `json:"rolloutCompletes,omitempty"`
}

func newOutageResult(scenario Scenario) *OutageResult {
	r := &OutageResult{}
	if scenario.rollout {
		r.RolloutCompletes = new(bool)
	}
	return r
}

// stormWithoutCore lets the storm continue while cells have lost the core, and new pods add budget in all cells. Before the core returns, one
// cell has used all of its budget, and another one has some left.
func stormWithoutCore(lose coreLoss) fault {
	return func(ctx context.Context, p *play) error {
		cutOff, end, err := lose(p)
		if err != nil {
			return err
		}
		lost := time.Since(p.start)
		if err := p.supplyFor(ctx, p.outage(shortOutage)); err != nil {
			return err
		}
		p.pauseLock.Lock()
		defer p.pauseLock.Unlock()
		if err := p.checkLocalAdmissions(lost); err != nil {
			return err
		}
		donor := cutOff[p.random.IntN(len(cutOff))]
		receiver := 1 - donor
		if err := poll(ctx, func(ctx context.Context) error { return p.exhaust(ctx, receiver) }); err != nil {
			return fmt.Errorf("use the budget of cell %s: %w", p.stage.Cells[receiver].Name, err)
		}
		if err := p.giveBudget(ctx, donor); err != nil {
			return err
		}
		return p.rejoin(ctx, receiver, end)
	}
}

// supplyFor deploys a few pods in all cells at intervals, for that long.
func (p *play) supplyFor(ctx context.Context, long time.Duration) error {
	for over := time.Now().Add(long); time.Now().Before(over); {
		if err := errors.Join(p.supply(ctx, p.plan.size().surplus, p.stage.Cells), p.waitBetween(ctx, supplyPause/2, supplyPause)); err != nil {
			return err
		}
	}
	return nil
}

// supply deploys pods that no controller replaces.
func (p *play) supply(ctx context.Context, pods int, cells []storm.Cell) error {
	p.supplies++
	more := p.app
	more.Instance, more.Pods = fmt.Sprintf("supply-%d", p.supplies), pods
	return more.DeployBare(ctx, cells)
}

// checkLocalAdmissions returns an error unless each cell has admitted a removal that was requested after the loss of the core.
func (p *play) checkLocalAdmissions(lost time.Duration) error {
	slowest := 0.0
	for _, cell := range p.stage.Cells {
		first, err := p.firstLocalAdmission(cell, lost)
		if err != nil {
			return err
		}
		slowest = max(slowest, (first - lost).Seconds())
	}
	p.outageResult.FirstLocalAdmissionSeconds = &slowest
	return nil
}

// firstLocalAdmission returns when a cell had first admitted a removal that was requested after the loss of the core.
func (p *play) firstLocalAdmission(cell storm.Cell, lost time.Duration) (time.Duration, error) {
	first := time.Duration(-1)
	for _, req := range p.journal.Requests() {
		if req.Cell == cell.Name && req.Outcome == storm.Admitted && req.Sent >= lost && (first < 0 || req.Answered < first) {
			first = req.Answered
		}
	}
	if first < 0 {
		return 0, fmt.Errorf("cell %s admitted no removal without the core", cell.Name)
	}
	return first, nil
}

// podsIn returns the pods of a cell whose deletion has not begun.
func (p *play) podsIn(cell int) []storm.Pod {
	return slices.DeleteFunc(p.recorder.Pods(), func(pod storm.Pod) bool { return pod.Cell.Name != p.stage.Cells[cell].Name })
}

// removeIn deletes an available pod of a cell.
func (p *play) removeIn(ctx context.Context, cell int) error {
	pod, ok := storm.FirstAvailable(p.podsIn(cell))
	if !ok {
		return fmt.Errorf("cell %s has no available pod", p.stage.Cells[cell].Name)
	}
	return p.journal.Remove(ctx, 0, pod, Delete)
}

// exhaust deletes a pod of a cell. It returns nil when that is denied by the newest counts of the cell, and no pod will become available.
func (p *play) exhaust(ctx context.Context, cell int) error {
	share, err := p.share(ctx, cell)
	if err != nil {
		return err
	}
	pods := p.podsIn(cell)
	if err := p.removeIn(ctx, cell); storm.OutcomeOf(err) != storm.Denied {
		return fmt.Errorf("want a denial, got: %w", errors.Join(err, errors.New("the cell has budget")))
	}
	if got := share.Status.Summary; int(got.Available) != len(pods) || got.Reserved != 0 || share.Status.DisruptionsAllowed != 0 {
		return fmt.Errorf("%d pods exist, the share has %+v", len(pods), got)
	}
	return nil
}

// giveBudget adds pods to a cell, and returns when its share has budget.
func (p *play) giveBudget(ctx context.Context, cell int) error {
	if err := p.supply(ctx, p.plan.size().surplus, p.stage.Cells[cell:cell+1]); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		share, err := p.share(ctx, cell)
		if err == nil && share.Status.DisruptionsAllowed == 0 {
			err = fmt.Errorf("the share of cell %s has no budget: %+v", p.stage.Cells[cell].Name, share.Status.Summary)
		}
		return err
	})
}

// rejoin ends the outage. It measures the time from the first answer of the core until a cell without budget uses that of another.
func (p *play) rejoin(ctx context.Context, cell int, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- end(ctx) }() // an API server answers before it is ready
	err := poll(ctx, func(ctx context.Context) error {
		_, err := p.protector(ctx)
		return err
	})
	back := time.Now()
	if err == nil {
		err = poll(ctx, func(ctx context.Context) error { return p.removeIn(ctx, cell) })
	}
	seconds := time.Since(back).Seconds()
	if err := errors.Join(err, <-ended); err != nil {
		return fmt.Errorf("cell %s cannot use the budget of the other one: %w", p.stage.Cells[cell].Name, err)
	}
	p.outageResult.RejoinSeconds = &seconds
	return nil
}
