package demo

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/live"
)

// showPause is the interval between two frames.
const showPause = 200 * time.Millisecond

// show draws a run until the returned function is called, which draws it a last time.
func (d *demo) show(ctx context.Context, r *stormRun) (stop func()) {
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		ticker := time.NewTicker(showPause)
		defer ticker.Stop()
		for {
			d.display.Show(d.scene(r))
			select {
			case <-ticker.C:
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		close(done)
		showing.Wait()
		if ctx.Err() == nil {
			d.display.Show(d.scene(r))
		}
		d.display.Leave()
	}
}

func (d *demo) scene(r *stormRun) live.Scene {
	now := r.recorder.Now()
	scene := live.Scene{
		Title: "Breakwater demo: " + r.title, Phase: r.phase(),
		Pods: d.options.Pods, Floor: d.options.Floor,
		Cells: d.report.Cells, Elapsed: now.At, Now: now,
		History: r.recorder.History(), Progress: r.storm.Progress(),
	}
	return scene
}

// phase describes the current phase.
func (r *stormRun) phase() string {
	if r.recovery != nil {
		return "deployed again"
	}
	phase := "before the storm"
	for _, progress := range r.storm.Progress() {
		switch {
		case progress.Began.IsZero():
		case progress.Ended.IsZero():
			return "storm"
		default:
			phase = "the storm is over; waiting for changes to stop"
		}
	}
	return phase
}
