package aggregator

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/conditions"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestDeferral(t *testing.T) {
	settle := func(p *v1alpha1.PodProtector) { // one removal has taken effect
		cell := &p.Status.Cells[0]
		cell.AdmissionHistory.Buckets = nil
		cell.Aggregation.CountedReplicas--
		cell.Aggregation.AvailableReplicas--
		cell.Aggregation.SnapshotVersion, cell.Aggregation.LastEventTime = "8", metav1.NowMicro()
	}
	for claim, c := range map[string]struct {
		change func(p *v1alpha1.PodProtector) // in addition to settle
		work   outcome
		want   time.Duration
	}{
		"settles what the counts account for":  {work: outcome{settled: quota.Settled{Absent: 1}}, want: 5 * time.Second},
		"the protector has another rate":       {change: func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.AggregationRateMillis = new(int32(100)) }, want: 500 * time.Millisecond},
		"the protector has no rate":            {change: func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.AggregationRateMillis = new(int32) }},
		"a pod has become available":           {change: func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.CountedReplicas++ }},
		"another pod has died":                 {change: func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.CountedReplicas-- }},
		"a pod became available by time":       {work: outcome{becameAvailable: true}},
		"the deadline of a removal has passed": {work: outcome{settled: quota.Settled{Expired: 1}}},
		"an update is overdue":                 {work: outcome{settled: quota.Settled{Overdue: []quota.Reservation{{}}}}},
		"the epoch is new":                     {change: func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.Epoch++ }},
		"the counts are no longer stale":       {change: func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Discount = v1alpha1.DiscountStale }},
		"the cell is new":                      {change: func(p *v1alpha1.PodProtector) { p.Status.Cells[0].CellID = "c1" }},
		"a pod is in another domain": {change: func(p *v1alpha1.PodProtector) {
			p.Status.Cells[0].Aggregation.Spread = snapshot.CellDomains("zone", map[string]int32{"a": 1}, 0, "")
		}},
		"a condition changes": {change: func(p *v1alpha1.PodProtector) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionForceDeletable, Status: metav1.ConditionTrue}}
		}},
		"the protector is being deleted": {change: func(p *v1alpha1.PodProtector) { p.DeletionTimestamp = new(metav1.Now()) }},
	} {
		t.Run(claim, func(t *testing.T) {
			now := time.Now()
			d := newDeferral(simulatedCellName, func() time.Time { return now })
			before := deferrable()
			after := before.DeepCopy()
			settle(after)
			if c.change != nil {
				c.change(after)
			}
			quota.Summarize(after)
			for i := range undeferredWrites {
				if wait := d.wait(before, after, &outcome{}); wait > 0 {
					t.Fatalf("write %d of a second is deferred by %s, want none of %d", i, wait, undeferredWrites)
				}
			}
			if got := d.wait(before, after, &c.work); got != c.want {
				t.Errorf("wait() = %s, want %s", got, c.want)
			}
		})
	}
}

func deferrable() *v1alpha1.PodProtector {
	p := newSimulatedCell(1, 100).stored
	p.Status.Cells = []v1alpha1.PodProtectorCell{{
		CellID:           simulatedCellName,
		Aggregation:      v1alpha1.Aggregation{CountedReplicas: 3, AvailableReplicas: 3, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "7", Epoch: 1},
		AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{PodUID: "uid-1", PodName: "web-1", Counter: 1}}},
	}}
	quota.Summarize(p)
	return p
}

// deferringCell is a simulated cell whose leader runs whole rounds. In a busy cell the shard writes other protectors all the time.
type deferringCell struct {
	*simulatedCell
	busy bool
	// wakeUp is when the queue returns the protector; zero if it is not in the queue.
	wakeUp time.Time
	// outdated is since when rounds have left the stored numbers outdated; zero if they are not.
	outdated time.Time
}

func newDeferringCell() *deferringCell {
	w := &deferringCell{simulatedCell: newSimulatedCell(1, 100)}
	for range 6 {
		w.create(true)
	}
	w.lead()
	r := w.newest().reconciler
	r.writes.protectors, r.enqueuer.queue, r.enqueuer.rounds = &clusters.Protectors{Writer: statusStore{cell: w}}, wakeUpQueue{cell: w}, &roundTracer{}
	return w
}

// statusStore stores statuses in the simulated cell.
type statusStore struct {
	client.SubResourceWriter
	cell *deferringCell
}

// Status implements client.StatusClient.
func (s statusStore) Status() client.SubResourceWriter { return s }

// Update implements client.SubResourceWriter.
func (s statusStore) Update(_ context.Context, p client.Object, _ ...client.SubResourceUpdateOption) error {
	s.cell.store(p.(*v1alpha1.PodProtector).DeepCopy()) //nolint:forcetypeassert // no other kind is written
	return nil
}

// wakeUpQueue records the earliest time at which the protector is due, as the delaying queue does.
type wakeUpQueue struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]
	cell *deferringCell
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q wakeUpQueue) AddAfter(_ types.NamespacedName, wait time.Duration) {
	if at := q.cell.clock.Add(wait); q.cell.wakeUp.IsZero() || at.Before(q.cell.wakeUp) {
		q.cell.wakeUp = at
	}
}

// round runs one round of the newest leader, and compares what is stored with what would be without deferral.
func (w *deferringCell) round(t *rapid.T) {
	r := w.newest().reconciler
	for w.busy && r.writes.deferral.limiter.AllowN(w.clock, 1) { // writes of other protectors
	}
	if err := r.write(t.Context(), w.key(), w.stored.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	now := w.stored.DeepCopy()
	if _, err := r.aggregate(t.Context(), w.key(), now); err != nil {
		t.Fatal(err)
	}
	conditions.Summarize(now, w.clock)
	if got, want := w.stored.Status, now.Status; got.Summary.EstimatedAvailable != want.Summary.EstimatedAvailable ||
		got.DisruptionsAllowed != want.DisruptionsAllowed || !cmp.Equal(got.Conditions, want.Conditions) {
		t.Fatalf("a write is deferred that changes the budget or a condition\nstored %+v\nnewest %+v", got, want)
	}
	switch {
	case isUnchanged(w.stored, now, simulatedCellName):
		w.outdated = time.Time{}
	case w.outdated.IsZero():
		w.outdated = w.clock
	case w.clock.Sub(w.outdated) >= maxDeferral*w.stored.Spec.AdmissionHistory.AggregationRateOrDefault():
		t.Fatalf("a write is deferred for %s, want at most %d rates of %s", w.clock.Sub(w.outdated), maxDeferral, w.stored.Spec.AdmissionHistory.AggregationRateOrDefault())
	}
}

// pass lets time pass, with a round whenever the queue returns the protector.
func (w *deferringCell) pass(t *rapid.T, d time.Duration) {
	end := w.clock.Add(d)
	for !w.wakeUp.IsZero() && !w.wakeUp.After(end) {
		w.passTime(max(w.wakeUp.Sub(w.clock), 0))
		w.wakeUp = time.Time{}
		w.round(t)
	}
	w.passTime(end.Sub(w.clock))
}

// A deferred write is made within five aggregation rates, without any event. The stored budget and conditions are always those that would be
// stored without deferral.
func TestDeferredWritesAreMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newDeferringCell()
		event := func(t *rapid.T) {
			w.newest().deliver(w.events, len(w.events))
			w.round(t)
		}
		event(t)
		t.Repeat(map[string]func(*rapid.T){
			"busy or not": func(t *rapid.T) { w.busy = rapid.Bool().Draw(t, "busy") },
			"create": func(t *rapid.T) {
				w.create(rapid.Bool().Draw(t, "ready"))
				event(t)
			},
			"readiness": func(t *rapid.T) {
				p := drawPod(t, w.pods, "pod")
				flying := false
				for _, r := range w.inFlight {
					flying = flying || r.uid == p.UID
				}
				if !flying && p.DeletionTimestamp == nil {
					setReady(p, !w.available(p))
					w.recordEvent(p, false)
					event(t)
				}
			},
			"remove": func(t *rapid.T) {
				w.review(drawPod(t, w.pods, "pod"), v1alpha1.OperationDelete)
				w.round(t)
			},
			"take effect": func(t *rapid.T) {
				if len(w.inFlight) == 0 {
					t.Skip("none in flight")
				}
				w.takeEffect(rapid.IntRange(0, len(w.inFlight)-1).Draw(t, "request"), rapid.Bool().Draw(t, "graceful"))
				event(t)
			},
			"pass time": func(t *rapid.T) {
				w.pass(t, time.Duration(rapid.IntRange(1, 20_000).Draw(t, "milliseconds"))*time.Millisecond)
			},
		})
		w.pass(t, maxDeferral*w.stored.Spec.AdmissionHistory.AggregationRateOrDefault())
		if !w.outdated.IsZero() {
			t.Fatalf("the stored numbers are outdated since %s, %s ago: %+v", w.outdated, w.clock.Sub(w.outdated), w.stored.Status)
		}
	})
}

// A storm over many protectors settles the removals of several seconds in one write.
func TestBusyShardSettlesRemovalsInOneWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newDeferringCell()
		w.newest().deliver(w.events, len(w.events))
		w.round(t)
		w.busy = true
		before := len(w.history)
		var removed []*corev1.Pod
		for range rapid.IntRange(2, 4).Draw(t, "removals") {
			p := drawPod(t, w.pods, "pod")
			removed = append(removed, p)
			w.review(p, v1alpha1.OperationDelete)
			w.takeEffect(0, false)
			w.newest().deliver(w.events, len(w.events))
			w.round(t)
			w.pass(t, time.Second)
		}
		w.pass(t, maxDeferral*time.Second)
		if writes := len(w.history) - before - len(removed); writes != 1 {
			t.Errorf("%d writes settled %d removals within four seconds, want 1", writes, len(removed))
		}
		if got := quota.BudgetOf(w.stored); got.Reserved != 0 || got.Available != len(w.pods) {
			t.Errorf("budget %+v with %d pods left", got, len(w.pods))
		}
	})
}

// The comparison must not change what is written: the reservations of a share reduce the budget of other cells.
func TestComparisonForDeferralKeepsShares(t *testing.T) {
	p := &v1alpha1.PodProtector{}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Share: &v1alpha1.CellShare{Floor: 5, Reserved: 3}}}
	withoutNumbers(p, "a")
	if got := p.Status.Cells[0].Share.Reserved; got != 3 {
		t.Errorf("the share has %d reservations after the comparison, want 3", got)
	}
}
