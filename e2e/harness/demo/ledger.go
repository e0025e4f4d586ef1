package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// ledger records the protector's status during a storm. Its entries are complete when stop has returned.
type ledger struct {
	cells   []string
	entries []report.Entry
	stop    func()
}

// startLedger polls the protector until the ledger is stopped.
func (d *demo) startLedger(ctx context.Context, r *stormRun) (*ledger, error) {
	core, err := install.Client(d.core)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &ledger{cells: d.report.Cells}
	var keeping sync.WaitGroup
	l.stop = func() {
		cancel()
		keeping.Wait()
	}
	keeping.Go(func() {
		ticker := time.NewTicker(protectorPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			protector := &v1alpha1.PodProtector{}
			if err := core.Get(ctx, protectorOf(r.app), protector); err != nil {
				if ctx.Err() == nil {
					d.log.Error(err, "Failed to read the protector")
				}
				continue
			}
			l.addEntry(r, protector)
		}
	})
	return l, nil
}

// addEntry adds an entry if something has changed.
func (l *ledger) addEntry(r *stormRun, protector *v1alpha1.PodProtector) {
	counts := r.storm.Counts()
	entry := report.Entry{
		Seconds: report.Seconds(r.recorder.Now().At), Allowed: int(protector.Status.DisruptionsAllowed), Admitted: counts.Admitted, Refused: counts.Refused,
	}
	for _, name := range l.cells {
		counted, reserved := shareOf(protector, name)
		entry.Counted, entry.Reserved = append(entry.Counted, counted), append(entry.Reserved, reserved)
	}
	last := report.Entry{}
	if n := len(l.entries); n > 0 {
		last = l.entries[n-1]
	}
	last.Seconds = entry.Seconds
	if fmt.Sprint(last) != fmt.Sprint(entry) {
		l.entries = append(l.entries, entry)
	}
}

// shareOf returns what a protector has for a cell: the counted available pods, and the open reservations.
func shareOf(protector *v1alpha1.PodProtector, cell string) (counted, reserved int) {
	for i := range protector.Status.Cells {
		share := &protector.Status.Cells[i]
		if share.CellID != cell {
			continue
		}
		counted = int(share.Aggregation.AvailableReplicas)
		for j := range share.AdmissionHistory.Buckets {
			reserved += int(share.AdmissionHistory.Buckets[j].Counter)
		}
	}
	return counted, reserved
}
