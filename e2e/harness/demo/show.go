package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// showPause is the interval between two lines about a run.
const showPause = time.Second

// printf writes a line of output.
func (d *demo) printf(format string, arguments ...any) {
	d.printing.Lock()
	defer d.printing.Unlock()
	_, _ = fmt.Fprintf(d.out, format+"\n", arguments...) // the report has all results
}

// show writes a line about a run every second until the returned function is called, which writes a last one.
func (d *demo) show(ctx context.Context, r *stormRun) (stop func()) {
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		ticker := time.NewTicker(showPause)
		defer ticker.Stop()
		for {
			d.printf("%s", d.line(r))
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
			d.printf("%s", d.line(r))
		}
	}
}

// line describes the state of a run.
func (d *demo) line(r *stormRun) string {
	now, counts := r.recorder.Now(), r.storm.Counts()
	var cells []string
	for i, name := range d.report.Cells {
		cells = append(cells, fmt.Sprintf("%s %d", name, now.Cells[i]))
	}
	return fmt.Sprintf("%3.0f s  %s: %d available (%s), floor %d; asked %d, admitted %d, refused %d", now.At.Seconds(), r.phase(), now.Total,
		strings.Join(cells, ", "), d.options.Floor, counts.Attempted, counts.Admitted, counts.Denied)
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
