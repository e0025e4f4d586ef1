package aggregator

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// A report of a leader changes the Cell only if no later leader and no restore of the core has ended its leadership. Only a leader that leads writes a
// heartbeat: it confirms all counts.
func TestLeaderReport(t *testing.T) {
	const epoch = 7
	before := metav1.NewMicroTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	for claim, test := range map[string]struct {
		stored       v1alpha1.CellAggregator
		release      bool
		wantStop     error
		wantBeat     bool
		wantRestored string
	}{
		"a leader that leads":                                 {stored: v1alpha1.CellAggregator{Epoch: epoch, RestoredVersion: "5"}, wantBeat: true, wantRestored: "5"},
		"a leader that has stopped":                           {stored: v1alpha1.CellAggregator{Epoch: epoch, RestoredVersion: "5"}, release: true, wantRestored: "5"},
		"a later leader":                                      {stored: v1alpha1.CellAggregator{Epoch: epoch + 1}, wantStop: errDeposed},
		"a restore that another leader recorded":              {stored: v1alpha1.CellAggregator{Epoch: epoch - 1, RestoredVersion: "6"}, wantStop: versions.ErrRestored, wantRestored: "6"},
		"a restore that no leader recorded: versions go back": {stored: v1alpha1.CellAggregator{Epoch: epoch, SeenVersion: "100000"}, wantStop: versions.ErrRestored},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCell(1, 4)
			w.lostVersion = 5
			w.lead()
			l := w.newest().leadership
			cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: simulatedCellName, UID: "cell-1"}}
			cell.Status.Aggregator = test.stored
			cell.Status.Aggregator.LastHeartbeat = &before
			c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(cell).WithObjects(cell).Build()
			l.aggregator.core.client, l.aggregator.core.reader = c, c
			var stopped error
			l.stop = func(err error) { stopped = err }
			report := &leaderReport{l: l, epoch: epoch}
			w.clock = before.Add(time.Minute)
			if test.release {
				report.writeReleased(t.Context(), "the process stops")
			} else if err := report.writeLeading(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(stopped, test.wantStop) {
				t.Errorf("the leadership ended with %v, want %v", stopped, test.wantStop)
			}
			got := &v1alpha1.Cell{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(cell), got); err != nil {
				t.Fatal(err)
			}
			a := got.Status.Aggregator
			if beat := !a.LastHeartbeat.Equal(&before); beat != test.wantBeat {
				t.Errorf("the last heartbeat is %v, before %v, want a new one: %t", a.LastHeartbeat, before, test.wantBeat)
			}
			if ready := meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionReady); ready != test.wantBeat {
				t.Errorf("the Cell is ready: %t, want %t", ready, test.wantBeat)
			}
			if a.RestoredVersion != test.wantRestored || test.wantStop != nil && a.Epoch != test.stored.Epoch {
				t.Errorf("the Cell has the epoch %d and the restore %q, want the restore %q", a.Epoch, a.RestoredVersion, test.wantRestored)
			}
		})
	}
}
