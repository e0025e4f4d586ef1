package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// A storm counts as over when nothing has changed for quiet, or at the latest after settleTimeout. By then a cell whose
	// controllers still retry has had enough time.
	quietTime     = 2 * time.Second
	settleTimeout = 15 * time.Second
)

// unprotected runs the storm on an application without protection.
func (d *demo) unprotected(ctx context.Context) (report.Run, error) {
	d.printf("\n1. Without Breakwater")
	app := storm.Application{Namespace: "unprotected", Name: application, Pods: d.options.Pods}
	if err := d.deploy(ctx, app, d.options.Pods); err != nil {
		return report.Run{}, err
	}
	if err := d.createSource(ctx, app); err != nil {
		return report.Run{}, err
	}
	r, err := d.storm(ctx, app)
	if err != nil {
		return report.Run{}, err
	}
	return r.result(d.options.Floor), nil
}

// protected starts Breakwater and runs the storm on a protected application. Then it deploys the application again to show that
// the budget recovers.
func (d *demo) protected(ctx context.Context) (report.Run, error) {
	d.printf("\n2. With Breakwater")
	if err := d.startBreakwater(ctx); err != nil {
		return report.Run{}, err
	}
	app := storm.Application{Namespace: "protected", Name: application, Pods: d.options.Pods}
	if err := d.deploy(ctx, app, d.options.Pods); err != nil {
		return report.Run{}, err
	}
	if err := d.step(ctx, fmt.Sprintf("Protecting the application: floor %d", d.options.Floor), func(ctx context.Context) error {
		return d.protect(ctx, app)
	}); err != nil {
		return report.Run{}, err
	}
	r, err := d.storm(ctx, app)
	if err != nil {
		return report.Run{}, err
	}
	if err := d.recover(ctx, r); err != nil {
		r.recorder.Stop()
		return report.Run{}, fmt.Errorf("redeploy the application: %w", err)
	}
	return r.result(d.options.Floor), nil
}

func (d *demo) startBreakwater(ctx context.Context) error {
	what := "Starting the generator, and an aggregator and a webhook for each worker"
	return d.step(ctx, what, func(starting context.Context) error {
		breakwater, err := install.Start(starting, install.Options{
			Program: d.options.Program, Dir: d.dir, Cores: d.federation.Cores(), Workers: d.federation.Workers(),
		})
		if err != nil {
			return err
		}
		d.breakwater = breakwater
		go func() {
			select {
			case death := <-breakwater.Died():
				d.fail(death)
			case <-ctx.Done():
			}
		}()
		return breakwater.EnableWebhooks(starting)
	})
}

// deploy creates an application's pods and waits until wanted pods are available.
func (d *demo) deploy(ctx context.Context, app storm.Application, wanted int) error {
	return d.step(ctx, fmt.Sprintf("Deploying %d pods over %d workers", app.Pods, len(d.cells)), func(ctx context.Context) error {
		if err := app.Deploy(ctx, d.cells); err != nil {
			return err
		}
		recorder, err := storm.StartRecorder(ctx, app.Scope(d.cells), storm.RecorderOptions{})
		if err != nil {
			return err
		}
		defer recorder.Stop()
		return recorder.Wait(ctx, fmt.Sprintf("%d available pods", wanted), func(p storm.Point) bool { return p.Total >= wanted })
	})
}

// step runs a step that should take seconds, with a timeout, and prints how long it took.
func (d *demo) step(ctx context.Context, description string, do func(context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return err
	}
	d.printf("%s: done after %.1f s.", description, time.Since(began).Seconds())
	return nil
}

// stormRun is one run of the storm.
type stormRun struct {
	app      storm.Application
	storm    *storm.Storm
	recorder *storm.Recorder
	// settled is the time from the start of the record until nothing changed any more; final is the number of available pods
	// then.
	settled  time.Duration
	final    int
	recovery *report.Recovery
}

// storm runs the storm and returns when it is over and nothing changes any more. The recorder continues.
func (d *demo) storm(ctx context.Context, app storm.Application) (*stormRun, error) {
	recorder, err := storm.StartRecorder(ctx, app.Scope(d.cells), storm.RecorderOptions{})
	if err != nil {
		return nil, err
	}
	core, err := install.Client(d.core)
	if err != nil {
		recorder.Stop()
		return nil, err
	}
	first := accident{core: core, namespace: app.Namespace}
	r := &stormRun{app: app, recorder: recorder, storm: plan(d.options, first, app.Scope(d.cells), recorder)}
	stop := d.show(ctx, r)
	defer stop()
	if err := r.storm.Run(ctx); err != nil {
		recorder.Stop()
		return nil, err
	}
	if err := recorder.Settle(ctx, quietTime, settleTimeout); err != nil {
		recorder.Stop()
		return nil, err
	}
	now := recorder.Now()
	r.settled, r.final = now.At, now.Total
	return r, nil
}

// result ends the record and evaluates it.
func (r *stormRun) result(floor int) report.Run {
	record := r.recorder.Stop()
	verdict := storm.Judge(record, floor)
	run := report.Run{
		Counts:         r.storm.Counts(),
		Removals:       verdict.Removals,
		OverAdmissions: verdict.OverAdmissions,
		MinAvailable:   verdict.MinAvailable,
		FinalAvailable: r.final,
		Recovery:       r.recovery,
		Timeline:       report.Timeline(verdict.Timeline),
	}
	run.Denial, _ = r.storm.Example(storm.Denied)
	began := r.settled
	for _, progress := range r.storm.Progress() {
		attack := report.Attack{
			Name:         progress.Attack,
			BeginSeconds: report.Seconds(progress.Began.Sub(record.Start)),
			EndSeconds:   report.Seconds(progress.Ended.Sub(record.Start)),
			Counts:       progress.Counts,
		}
		began = min(began, progress.Began.Sub(record.Start))
		run.PerAttack = append(run.PerAttack, attack)
	}
	run.DurationSeconds = report.Seconds(r.settled - began)
	return run
}
