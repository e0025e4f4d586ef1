package console

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// rowFor returns the row of a protector whose core was restored at a version.
func rowFor(p *v1alpha1.PodProtector, restored uint64) row {
	v := statusOf("", p, restored, now)
	return rowOf(&v)
}

// protector returns a protector with a floor and one cell with available pods and reservations. Its informational fields are wrong.
func protector(floor, available int32, reserved int, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Status.DesiredAvailable, p.Status.Summary.Available, p.Status.DisruptionsAllowed = 999, 999, 999
	cell := v1alpha1.PodProtectorCell{CellID: "worker-1"}
	cell.Aggregation.CountedReplicas, cell.Aggregation.TotalReplicas = available, available
	for i := range reserved {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{
			PodUID: types.UID(rune('a' + i)), PodName: "web-" + string(rune('a'+i)), Counter: 1, Operation: v1alpha1.OperationEvict,
			StartTime: metav1.NewMicroTime(now.Add(-time.Duration(i) * time.Second)),
		})
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{cell}
	for _, c := range change {
		c(p)
	}
	for i := range p.Status.Cells {
		p.Status.Cells[i].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
	}
	return p
}

func condition(kind string, status metav1.ConditionStatus) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Because", Message: "it is so"})
	}
}

func scaledToZero(p *v1alpha1.PodProtector) {
	condition(v1alpha1.ConditionPodsMatched, "False")(p)
	p.Status.Conditions[0].Reason = v1alpha1.ReasonScaledToZero
}

func misspelt(p *v1alpha1.PodProtector) {
	condition(v1alpha1.ConditionTargetResolved, "True")(p)
	p.Status.Conditions[0].Reason = v1alpha1.ReasonUnknownKey
}

func TestRowOfStates(t *testing.T) {
	half := intstr.FromString("50%")
	for claim, c := range map[string]struct {
		p    *v1alpha1.PodProtector
		want []state
	}{
		"budget is left":         {protector(10, 12, 1), nil},
		"all budget is reserved": {protector(10, 12, 2), []state{stateAtFloor}},
		"at the floor":           {protector(10, 10, 0), []state{stateAtFloor}},
		"below it":               {protector(10, 9, 0), []state{stateBelowFloor}},
		"a floor of nothing":     {protector(0, 0, 0), nil},
		"the floor is unknown":   {protector(0, 5, 0, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = &half }), []state{stateFloorUnknown}},
		"never counted":          {protector(1, 5, 0, func(p *v1alpha1.PodProtector) { p.Status.Cells = nil }), []state{stateNotCounted}},
		"more pods than expected": {protector(1, 5, 0, condition(v1alpha1.ConditionExpectationBelowPods, "True"), func(p *v1alpha1.PodProtector) {
			p.Spec.MinAvailable, p.Spec.ExpectedReplicas = &half, ptr.To(int32(2))
		}), []state{stateAboveExpected}},
		"its target vanished":                  {protector(1, 5, 0, condition(v1alpha1.ConditionTargetResolved, "False")), []state{stateVanished}},
		"its spread is unsatisfied":            {protector(1, 5, 0, condition(v1alpha1.ConditionSpreadSatisfied, "False")), []state{stateSpread}},
		"other protectors cover the same pods": {protector(1, 5, 0, condition(v1alpha1.ConditionOverlapping, "True")), []state{stateOverlapping}},
		"its namespace is exempt":              {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "False")), []state{stateUnguarded}},
		"whether it is exempt is unknown":      {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "Unknown")), []state{stateGuardUnknown}},
		"it is guarded again":                  {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "True")), nil},
		"no pod matches it":                    {protector(0, 0, 0, condition(v1alpha1.ConditionPodsMatched, "False")), []state{stateNoPods}},
		"its workload has a misspelt key":      {protector(1, 5, 0, misspelt), []state{stateMisspelt}},
		"its workload is scaled to 0":          {protector(0, 0, 0, scaledToZero), []state{stateScaledToZero}},
		"maxConcurrentLag is reached":          {protector(1, 5, 1, func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 1 }), []state{stateAtFloor}},
		"it was restored, unready":             {protector(3, 5, 0, func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: ""} }), []state{stateRestored, stateAtFloor}},
	} {
		t.Run(claim, func(t *testing.T) {
			row := rowFor(c.p, 0)
			if diff := cmp.Diff(c.want, row.States); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if row.Allowed != quota.Allowed(c.p) || row.Available > 900 {
				t.Errorf("%+v", row)
			}
		})
	}
}

func TestAdviceForHeldFloor(t *testing.T) {
	p := protector(1, 5, 0, condition(v1alpha1.ConditionTargetResolved, "False"), condition(v1alpha1.ConditionDecreasePending, "True"))
	commands := func() (all []string) {
		v := statusOf("", p, 0, now)
		l := listingOf(&v)
		for _, a := range adviceFor(&v, &l) {
			all = append(all, a.Command)
		}
		return all
	}
	confirm, release := "kubectl breakwater release --pending -n "+p.Namespace+" "+p.Name, "kubectl breakwater release -n "+p.Namespace+" PodProtector/"+p.Name
	if got := commands(); !slices.Contains(got, confirm) || slices.Contains(got, release) {
		t.Errorf("advice = %q, want %q and not %q", got, confirm, release)
	}
	p.Status.Conditions = p.Status.Conditions[:len(p.Status.Conditions)-1]
	if got := commands(); slices.Contains(got, confirm) || !slices.Contains(got, release) {
		t.Errorf("advice without a decrease = %q, want %q and not %q", got, release, confirm)
	}
}

func TestRecentDenialsAreAState(t *testing.T) {
	denials := []denial.Denial{
		{Last: now.Add(-time.Minute), Count: 3}, {Last: now.Add(-2 * time.Minute), Count: 5, Forced: true}, {Last: now.Add(-recentWindow), Count: 7},
	}
	got := rowFor(protector(10, 10, 0), 0).withDenials(denials, now)
	if got.Denied != 3 || !got.LastDenied.Equal(now.Add(-time.Minute)) || !cmp.Equal(got.States, []state{stateDenied, stateAtFloor}) {
		t.Errorf("%+v", got)
	}
}

func TestCountsFromBeforeRestoreAreIgnored(t *testing.T) {
	p := protector(3, 5, 0, func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.TermVersion = "100" })
	for restored, want := range map[uint64]int{0: 2, 99: 2, 100: 0, 200: 0} {
		row := rowFor(p, restored)
		if row.Allowed != want || p.Status.Cells[0].Aggregation.Void {
			t.Errorf("restored at %d: allowed = %d, want %d", restored, row.Allowed, want)
		}
	}
}

func TestReservationsAreSortedAndLimited(t *testing.T) {
	p := protector(10, 50, 25, func(p *v1alpha1.PodProtector) {
		h := &p.Status.Cells[0].AdmissionHistory
		h.Buckets = append(h.Buckets, v1alpha1.Bucket{Counter: 7, StartTime: metav1.NewMicroTime(now.Add(-time.Hour))})
		h.Buckets = append(h.Buckets, v1alpha1.Bucket{Counter: 1, PodUID: "z", Accounted: true})
	})
	b := bodyOf(p, statusOf("", p, 0, now))
	l := b.Reservations()
	if len(l.Oldest) != 20 || l.More != 6 || b.UnderWay != 32 || l.Oldest[0].Count != 7 || l.Oldest[1].Pod != "web-y" {
		t.Errorf("Reservations() = %d, first %+v, %d more of %d; want 20, the oldest first, 6 more of 32", len(l.Oldest), l.Oldest[0], l.More, b.UnderWay)
	}
}

func TestCellIsStaleByOwnClock(t *testing.T) {
	beat := metav1.NewMicroTime(now.Add(-999 * time.Hour)) // the cell's clock is wrong
	for claim, c := range map[string]struct {
		heard heartbeat
		said  metav1.ConditionStatus
		want  freshness
	}{
		"its heartbeat changes":                                      {heartbeat{at: now.Add(-10 * time.Second), changed: true}, "True", fresh},
		"its heartbeat changes, but its condition says stale":        {heartbeat{at: now.Add(-10 * time.Second), changed: true}, "False", stale},
		"its heartbeat does not change, whatever its condition says": {heartbeat{at: now.Add(-time.Minute), changed: true}, "True", stale},
		"one heartbeat was seen, without a condition":                {heartbeat{at: now.Add(-time.Second)}, "Unknown", freshnessUnknown},
		"one heartbeat was seen, and the condition says fresh":       {heartbeat{at: now.Add(-time.Second)}, "True", fresh},
		"no heartbeat was seen":                                      {heartbeat{}, "Unknown", freshnessUnknown},
	} {
		cell := &v1alpha1.Cell{Status: v1alpha1.CellStatus{
			Aggregator: v1alpha1.CellAggregator{LastHeartbeat: &beat}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAggregationFresh, Status: c.said}},
		}}
		if got := viewOfCell("", cell, c.heard, now); got.Freshness != c.want || got.Stale != (c.want == stale) {
			t.Errorf("%s: got %s, stale %v", claim, got.Freshness, got.Stale)
		}
	}
}

func TestFleetOf(t *testing.T) {
	var rows []row
	for i := range 120 {
		rows = append(rows, row{Namespace: "n", Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Available: 1})
	}
	rows[77].States = []state{stateBelowFloor}
	rows[5].States = []state{stateAtFloor, stateSpread}
	for claim, c := range map[string]struct {
		query              query
		first              string
		rows, found, pages int
	}{
		"the worst first":           {query{}, rows[77].Name, 50, 120, 3},
		"the last page":             {query{Page: 3}, "", 20, 120, 3},
		"a page beyond is the last": {query{Page: 99}, "", 20, 120, 3},
		"one before is the first":   {query{Page: -1}, rows[77].Name, 50, 120, 3},
		"by state":                  {query{State: stateSpread}, rows[5].Name, 1, 1, 1},
		"by name":                   {query{Text: "n/ba"}, "ba", 1, 1, 1},
		"none":                      {query{Text: "zzz"}, "", 0, 0, 1},
	} {
		f := fleetOf(rows, c.query)
		if len(f.Rows) != c.rows || f.Found != c.found || f.Pages != c.pages || c.first != "" && f.Rows[0].Name != c.first || f.Totals.Protectors != 120 {
			t.Errorf("%s: %d rows of %d on %d pages", claim, len(f.Rows), f.Found, f.Pages)
		}
	}
}
