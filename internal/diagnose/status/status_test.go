package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.MicroTime {
	t := metav1.NewMicroTime(now.Add(-d))
	return &t
}

// protector returns a protector with a floor and counted cells a, b, ..., each with the given number of available pods.
func protector(floor int32, available ...int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(floor)
	for i, pods := range available {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: string(rune('a' + i)), Aggregation: v1alpha1.Aggregation{
			TotalReplicas: pods + 1, CountedReplicas: pods, CountedSpec: quota.CountedSpec(&p.Spec), LastEventTime: *ago(3 * time.Second),
		}})
	}
	return p
}

func reserve(p *v1alpha1.PodProtector, cell int, pods ...string) {
	h := &p.Status.Cells[cell].AdmissionHistory
	for _, pod := range pods {
		h.Buckets = append(h.Buckets, v1alpha1.Bucket{
			StartTime: *ago(90 * time.Second), Counter: 1, PodUID: types.UID("uid-" + pod), PodName: pod, Operation: v1alpha1.OperationEvict,
		})
	}
}

func newCell(name string, heard time.Duration) v1alpha1.Cell {
	c := v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Aggregator = v1alpha1.CellAggregator{Holder: "agg", Epoch: 4, LastHeartbeat: ago(heard)}
	return c
}

func cells(names ...string) (all []v1alpha1.Cell) {
	for _, name := range names {
		all = append(all, newCell(name, time.Second))
	}
	return all
}

func TestOfMatchesDecide(t *testing.T) {
	percent := intstr.FromString("70%")
	for claim, c := range map[string]struct {
		of                                 *v1alpha1.PodProtector
		available, underWay, left, allowed int
		unknown                            bool
		denies                             string
	}{
		"budget is left":                       {of: protector(7, 5, 4), available: 9, left: 2, allowed: 2},
		"at its floor":                         {of: protector(9, 5, 4), available: 9, denies: "NoBudget"},
		"below it":                             {of: protector(12, 5, 4), available: 9, left: -3, denies: "NoBudget"},
		"a floor of 0 refuses nothing":         {of: protector(0, 0)},
		"never counted":                        {of: protector(1), left: -1, denies: "NeverAggregated"},
		"reservations reduce the budget":       {of: edited(protector(7, 5, 4), func(p *v1alpha1.PodProtector) { reserve(p, 0, "x", "y") }), available: 9, underWay: 2, denies: "NoBudget"},
		"as many as maxConcurrentLag":          {of: edited(protector(1, 9), func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 1; reserve(p, 0, "x") }), available: 9, underWay: 1, left: 7, denies: "Full"},
		"an unknown floor":                     {of: edited(protector(1, 9), func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = &percent }), available: 9, unknown: true, denies: "FloorUnknown"},
		"counts of another spec":               {of: edited(protector(1, 9), func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 5 }), left: -1, denies: "NoBudget"},
		"void counts":                          {of: edited(protector(1, 9), func(p *v1alpha1.PodProtector) { quota.VoidCounts(&p.Status.Cells[0].Aggregation) }), left: -1, denies: "Restored"},
		"a discounted cell counts for nothing": {of: edited(protector(4, 9, 4), func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Discount = v1alpha1.DiscountStale }), available: 4, denies: ""},
	} {
		t.Run(claim, func(t *testing.T) {
			before := c.of.DeepCopy()
			v := status.Of("hub", c.of, cells("a", "b"), now)
			left := 0
			if (v.Budget == nil) != c.unknown {
				t.Fatalf("Of() has budget %v, want one exactly if the floor is known", v.Budget)
			} else if v.Budget != nil {
				left = *v.Budget
			}
			if v.Available != c.available || v.UnderWay != c.underWay || left != c.left || v.Allowed != c.allowed || v.Denies != c.denies {
				t.Errorf("Of() = available %d, under way %d, budget %d, allowed %d, refuses %q; want %+v", v.Available, v.UnderWay, left, v.Allowed, v.Denies, c)
			}
			if diff := cmp.Diff(before, c.of); diff != "" {
				t.Errorf("Of() modified the protector (-want +got):\n%s", diff)
			}
		})
	}
}

func edited(p *v1alpha1.PodProtector, change func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	change(p)
	return p
}

func TestContributionsAddUpToAvailable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := protector(int32(rapid.IntRange(0, 12).Draw(t, "floor")), 0, 0, 0)
		for i := range p.Status.Cells {
			c := &p.Status.Cells[i]
			c.Aggregation.CountedReplicas = int32(rapid.IntRange(0, 6).Draw(t, "available"))
			c.Discount = rapid.SampledFrom([]v1alpha1.Discount{"", v1alpha1.DiscountStale, v1alpha1.DiscountDraining}).Draw(t, "discount")
			if rapid.IntRange(0, 4).Draw(t, "other spec") == 0 {
				c.Aggregation.CountedSpec = "other"
			}
			for n := range rapid.IntRange(0, 4).Draw(t, "reserved") {
				reserve(p, i, c.CellID+string(rune('0'+n)))
			}
		}
		v := status.Of("", p, cells("a", "b", "c"), now)
		sum, underWay := 0, 0
		for _, one := range v.Cells {
			sum, underWay = sum+one.CountsElsewhere, underWay+one.UnderWay
			fresh := quota.Removal{Cell: one.Cell, PodUID: "fresh"}
			if admitted := quota.Decide(p.DeepCopy(), []quota.Removal{fresh})[0].Outcome.Admitted(); admitted != (one.Denies == "") {
				t.Fatalf("cell %s refuses %q, but Decide() admits a removal there: %v", one.Cell, one.Denies, admitted)
			}
		}
		if sum != v.Available || underWay != v.UnderWay {
			t.Fatalf("cells add %d available and %d under way, want %d and %d", sum, underWay, v.Available, v.UnderWay)
		}
	})
}

func TestCellsWithShares(t *testing.T) {
	p := protector(12, 10, 10)
	for i, share := range []v1alpha1.CellShare{{Floor: 6, Reserved: 1, TermVersion: "1"}, {Floor: 10, Wanted: 2, TermVersion: "1"}} {
		p.Status.Cells[i].Share = &share
	}
	v := status.Of("", p, cells("a", "b"), now)
	if v.Available != 20 || v.UnderWay != 1 || *v.Budget != 7 || v.Allowed != 3 || v.Denies != "" {
		t.Errorf("Of() = available %d, under way %d, budget %d, allowed %d, refuses %q; want 20, 1, 7, 3 and none", v.Available, v.UnderWay, *v.Budget, v.Allowed, v.Denies)
	}
	type numbers struct {
		Share                                status.FloorShare
		Available, CountsElsewhere, UnderWay int
		Denies                               string
	}
	var got []numbers
	for _, c := range v.Cells {
		got = append(got, numbers{*c.FloorShare, c.Available, c.CountsElsewhere, c.UnderWay, c.Denies})
	}
	want := []numbers{
		{status.FloorShare{Floor: 6, Budget: 3, UnderWay: 1}, 10, 7, 1, ""},
		{status.FloorShare{Floor: 10, Wanted: 2}, 10, 10, 0, "NoBudget"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	p.Status.Cells = quota.RestoredCells(&p.Status)
	if v := status.Of("", p, cells("a", "b"), now); v.Allowed != 0 || v.Cells[0].Denies != "Restored" {
		t.Errorf("Of() = allowed %d, and cell a refuses %q, want 0 and Restored: the protector was restored", v.Allowed, v.Cells[0].Denies)
	}
}

func TestFloors(t *testing.T) {
	percent, expected := intstr.FromString("70%"), int32(10)
	number := func(n int) *int { return &n }
	for claim, c := range map[string]struct {
		spec v1alpha1.PodProtectorSpec
		want status.Floor
	}{
		"a number":                              {v1alpha1.PodProtectorSpec{MinAvailable: v1alpha1.Pods(3)}, status.Floor{Pods: number(3), MinAvailable: "3"}},
		"a percentage of spec.expectedReplicas": {v1alpha1.PodProtectorSpec{MinAvailable: &percent, ExpectedReplicas: &expected}, status.Floor{Pods: number(7), MinAvailable: "70%", Expected: number(10), ExpectedFrom: "spec"}},
		"a percentage of an unknown base":       {v1alpha1.PodProtectorSpec{MinAvailable: &percent}, status.Floor{MinAvailable: "70%", ExpectedFrom: "workloads"}},
		"maxUnavailable":                        {v1alpha1.PodProtectorSpec{MaxUnavailable: &percent, ExpectedReplicas: &expected}, status.Floor{Pods: number(3), MaxUnavailable: "70%", Expected: number(10), ExpectedFrom: "spec"}},
	} {
		got := status.Of("", &v1alpha1.PodProtector{Spec: c.spec}, nil, now).Floor
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claim, diff)
		}
	}
}

func TestReservationsNameTheirPods(t *testing.T) {
	p := protector(1, 5)
	reserve(p, 0, "web-0")
	end := ago(time.Second)
	p.Status.Cells[0].AdmissionHistory.Buckets = append(p.Status.Cells[0].AdmissionHistory.Buckets,
		v1alpha1.Bucket{StartTime: *ago(10 * time.Second), EndTime: end, Counter: 3, PodUIDHashes: make([]byte, 24)},
		v1alpha1.Bucket{StartTime: *ago(time.Hour), Counter: 1, PodUID: "u", PodName: "web-1", Operation: v1alpha1.OperationUpdate, Generation: 2, Accounted: true})
	quota.SetEscrow(&p.Status.Cells[0].AdmissionHistory, "replica", 7, 1)
	view := status.Of("", p, cells("a"), now).Cells[0]
	if view.InAdvance != 7 || view.UnderWay != 11 {
		t.Errorf("%d reservations in advance of %d under way, want 7 of 11", view.InAdvance, view.UnderWay)
	}
	got := view.Reservations
	want := []status.Reservation{
		{Pod: "web-0", PodUID: "uid-web-0", Operation: "Evict", Count: 1, Since: now.Add(-90 * time.Second), Overdue: true},
		{Count: 3, Since: now.Add(-10 * time.Second), Until: &end.Time},
		{Pod: "web-1", PodUID: "u", Operation: "Update", Count: 1, Since: now.Add(-time.Hour), Accounted: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCellIsStaleWhenAggregatorIsSilent(t *testing.T) {
	silent, shards, told := newCell("a", 2*time.Minute), newCell("a", time.Second), newCell("a", time.Second)
	patient := newCell("a", 2*time.Minute)
	patient.Spec.StaleAfter = &metav1.Duration{Duration: 5 * time.Minute}
	mine := slot.Set{}.With(slot.Of("shop"))
	shards.Status.Shards = []v1alpha1.CellShard{
		{Name: "x", Slots: mine.String(), LastHeartbeat: ago(2 * time.Minute)}, {Name: "y", Slots: mine.Complement().String(), LastHeartbeat: ago(time.Second)},
	}
	told.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAggregationFresh, Status: metav1.ConditionFalse}}
	for claim, c := range map[string]struct {
		cell      v1alpha1.Cell
		namespace string
		stale     bool
	}{
		"reported recently":                      {newCell("a", time.Second), "shop", false},
		"silent for longer than staleAfter":      {silent, "shop", true},
		"silent for less than staleAfter":        {patient, "shop", false},
		"never reported":                         {v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, "shop", true},
		"the topology controller marks it stale": {told, "shop", true},
		"the shard of the namespace is":          {shards, "shop", true},
		"the shard of another namespace is":      {shards, otherSlot("shop"), false},
		"a clock that is ahead is no reason":     {newCell("a", -time.Hour), "shop", false},
	} {
		p := protector(1, 5)
		p.Namespace = c.namespace
		v := status.Of("", p, []v1alpha1.Cell{c.cell}, now)
		if v.Cells[0].Stale != c.stale || v.Stale() != c.stale {
			t.Errorf("%s: stale %v, want %v", claim, v.Cells[0].Stale, c.stale)
		}
	}
	if v := status.OfCell("", &shards, now); v.State != status.CellStale {
		t.Errorf("cell with a silent shard has state %s, want stale", v.State)
	}
}

// otherSlot returns a namespace in another slot.
func otherSlot(namespace string) string {
	other := namespace + "x"
	for slot.Of(other) == slot.Of(namespace) {
		other += "x"
	}
	return other
}

func TestOfCellStates(t *testing.T) {
	with := func(c v1alpha1.Cell, condition string, status metav1.ConditionStatus) v1alpha1.Cell {
		c.Status.Conditions = append(slices.Clone(c.Status.Conditions), metav1.Condition{Type: condition, Status: status})
		return c
	}
	fine := with(with(newCell("a", time.Second), v1alpha1.ConditionGuarded, metav1.ConditionTrue), v1alpha1.ConditionConnected, metav1.ConditionTrue)
	draining := fine
	draining.DeletionTimestamp = &metav1.Time{Time: now}
	for want, c := range map[string]v1alpha1.Cell{
		status.CellOK: fine, status.CellDraining: draining, status.CellStale: newCell("a", time.Hour), status.CellNeverReported: {},
		status.CellNotGuarded:   with(newCell("a", time.Hour), v1alpha1.ConditionGuarded, metav1.ConditionFalse),
		status.CellNotConnected: with(newCell("a", time.Second), v1alpha1.ConditionConnected, metav1.ConditionFalse),
		status.CellNotCounted:   with(newCell("a", time.Second), v1alpha1.ConditionReady, metav1.ConditionFalse),
		status.CellOverlapping:  with(newCell("a", time.Second), v1alpha1.ConditionOverlapping, metav1.ConditionTrue),
	} {
		if v := status.OfCell("hub", &c, now); v.State != want {
			t.Errorf("OfCell() has state %s, want %s", v.State, want)
		}
	}
	scoped := fine
	scoped.Spec = v1alpha1.CellSpec{Namespaces: []string{"b", "a"}}
	if v := status.OfCell("", &scoped, now); v.Scope != "namespaces a,b" || v.StaleAfter != 60 || v.Deadline != 65 {
		t.Errorf("%+v", v)
	}
	scoped.Spec = v1alpha1.CellSpec{PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "x"}}}
	if v := status.OfCell("", &scoped, now); v.Scope != "pods with cell=x" {
		t.Errorf("%+v", v)
	}
}

func TestOfIgnoresCountsFromBeforeRestore(t *testing.T) {
	p := protector(1, 9)
	p.Status.Cells[0].Aggregation.TermVersion = "50"
	of := cells("a")
	of[0].Status.Aggregator.RestoredVersion = "60"
	if v := status.Of("", p, of, now); v.Denies != "Restored" || v.Cells[0].Worthless != status.WorthlessVoid {
		t.Errorf("Of() refuses %q with counts that are %q, want void counts", v.Denies, v.Cells[0].Worthless)
	}
	of[0].Status.Aggregator.RestoredVersion = "40"
	if v := status.Of("", p, of, now); v.Denies != "" || v.Allowed != 8 {
		t.Errorf("Of() refuses %q and allows %d, want removals admitted", v.Denies, v.Allowed)
	}
}

func TestOfShowsPendingDecrease(t *testing.T) {
	p := protector(2, 3)
	pending := metav1.Condition{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCascade, LastTransitionTime: metav1.NewTime(now),
		Message: "Deployment web was deleted, which would release the floor of 2, but its owner was deleted: it is held.",
	}
	p.Status.Conditions = []metav1.Condition{pending}
	want := &brake.Decrease{Reason: "Cascade", Since: now, Cause: "Deployment web was deleted", Effect: "release the floor of 2"}
	v := status.Of("", p, nil, now)
	if diff := cmp.Diff(want, v.DecreasePending); diff != "" || v.Conditions[0].Good {
		t.Errorf("Of() has a condition that is good: %v, and a decrease (-want +got):\n%s", v.Conditions[0].Good, diff)
	}
	p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonNotPending
	if v := status.Of("", p, nil, now); v.DecreasePending != nil || !v.Conditions[0].Good {
		t.Errorf("Of() = decrease %+v with condition %+v, want none, and a good condition", v.DecreasePending, v.Conditions[0])
	}
}

func TestSpreads(t *testing.T) {
	p := protector(2, 3, 1)
	if v := status.Of("", p, nil, now); v.Spread != nil {
		t.Errorf("Of() has spread %+v for a protector without spec.spread", v.Spread)
	}
	p.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
	want := &status.Spread{TopologyKey: v1alpha1.TopologyKeyCell, Enforcement: "Audit", TolerateDomainLoss: true, Domains: []status.Domain{{Name: "a", Pods: 3}, {Name: "b", Pods: 1}}, LeftAfterLoss: 1}
	v := status.Of("", p, nil, now)
	if diff := cmp.Diff(want, v.Spread); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v.Allowed != 1 || v.Denies != "" || v.Cells[0].Denies != "" || v.Cells[1].Denies != "DomainLoss" {
		t.Errorf("Of() allows %d, refuses %q, in its cells %q and %q; want one admitted", v.Allowed, v.Denies, v.Cells[0].Denies, v.Cells[1].Denies)
	}
}
