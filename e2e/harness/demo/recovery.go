package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// recoveryPause is the interval between two removal attempts.
	recoveryPause = 50 * time.Millisecond
	// recoveryTime is how long the demo watches what the garbage collectors do with the budget.
	recoveryTime = 8 * time.Second
)

// recover deploys the application again beside its remaining pods, as an operator would after such an accident. It removes an
// available pod as soon as a removal is admitted. The garbage collectors are still retrying: with the new pods they have the
// budget to finish the cascade, and they delete the old pods.
func (d *demo) recover(ctx context.Context, r *stormRun) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	r.recovery = &report.Recovery{BeginSeconds: report.Seconds(r.recorder.Now().At)}
	stop := d.show(ctx, r) // show reads r.recovery, which must be set before
	defer stop()
	redeployed := r.app
	redeployed.Instance = "again"
	if err := redeployed.Deploy(ctx, d.cells); err != nil {
		return err
	}
	if err := r.recorder.Wait(ctx, "more available pods than the floor",
		func(p storm.Point) bool { return p.Total > d.options.Floor }); err != nil {
		return err
	}
	began := time.Now()
	if err := removeOne(ctx, r.recorder); err != nil {
		return err
	}
	r.recovery.UsableAfterSeconds = report.Seconds(time.Since(began))
	if err := r.recorder.Settle(ctx, quietTime, recoveryTime); err != nil {
		return err
	}
	r.recovery.Available = r.recorder.Now().Total
	return nil
}

// removeOne retries until the removal of an available pod is admitted.
func removeOne(ctx context.Context, recorder *storm.Recorder) error {
	ticker := time.NewTicker(recoveryPause)
	defer ticker.Stop()
	var last error
	for {
		if pod, ok := storm.FirstAvailable(recorder.Pods()); ok {
			if last = pod.Delete(ctx); last == nil {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("no removal was admitted although there is budget: %w", errors.Join(ctx.Err(), last))
		}
	}
}
