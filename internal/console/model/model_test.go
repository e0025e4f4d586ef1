package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/model"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

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
		want []model.State
	}{
		"budget is left":         {protector(10, 12, 1), nil},
		"all budget is reserved": {protector(10, 12, 2), []model.State{model.StateAtFloor}},
		"at the floor":           {protector(10, 10, 0), []model.State{model.StateAtFloor}},
		"below it":               {protector(10, 9, 0), []model.State{model.StateBelowFloor}},
		"a floor of nothing":     {protector(0, 0, 0), nil},
		"the floor is unknown":   {protector(0, 5, 0, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = &half }), []model.State{model.StateFloorUnknown}},
		"never counted":          {protector(1, 5, 0, func(p *v1alpha1.PodProtector) { p.Status.Cells = nil }), []model.State{model.StateNotCounted}},
		"more pods than expected": {protector(1, 5, 0, condition(v1alpha1.ConditionExpectationBelowPods, "True"), func(p *v1alpha1.PodProtector) {
			p.Spec.MinAvailable, p.Spec.ExpectedReplicas = &half, ptr.To(int32(2))
		}), []model.State{model.StateAboveExpected}},
		"its target vanished":                  {protector(1, 5, 0, condition(v1alpha1.ConditionTargetResolved, "False")), []model.State{model.StateVanished}},
		"its spread is unsatisfied":            {protector(1, 5, 0, condition(v1alpha1.ConditionSpreadSatisfied, "False")), []model.State{model.StateSpread}},
		"other protectors cover the same pods": {protector(1, 5, 0, condition(v1alpha1.ConditionOverlapping, "True")), []model.State{model.StateOverlapping}},
		"its namespace is exempt":              {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "False")), []model.State{model.StateUnguarded}},
		"whether it is exempt is unknown":      {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "Unknown")), []model.State{model.StateGuardUnknown}},
		"it is guarded again":                  {protector(1, 5, 0, condition(v1alpha1.ConditionGuarded, "True")), nil},
		"no pod matches it":                    {protector(0, 0, 0, condition(v1alpha1.ConditionPodsMatched, "False")), []model.State{model.StateNoPods}},
		"its workload has a misspelt key":      {protector(1, 5, 0, misspelt), []model.State{model.StateMisspelt}},
		"its workload is scaled to 0":          {protector(0, 0, 0, scaledToZero), []model.State{model.StateScaledToZero}},
		"maxConcurrentLag is reached":          {protector(1, 5, 1, func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 1 }), []model.State{model.StateAtFloor}},
		"it was restored, unready":             {protector(3, 5, 0, func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: ""} }), []model.State{model.StateRestored, model.StateAtFloor}},
	} {
		t.Run(claim, func(t *testing.T) {
			row := model.RowOf(c.p, 0)
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
		for _, advice := range model.ProtectorOf(p, model.RowOf(p, 0), 0, now).Advice {
			all = append(all, advice.Command)
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
	var denials []model.Denial
	for _, d := range []denial.Denial{
		{Last: now.Add(-time.Minute), Count: 3}, {Last: now.Add(-2 * time.Minute), Count: 5, Forced: true}, {Last: now.Add(-model.RecentWindow), Count: 7},
	} {
		denials = append(denials, model.Denial{Denial: d})
	}
	row := model.RowOf(protector(10, 10, 0), 0).WithRefusals(denials, now)
	if row.Refused != 3 || !row.LastRefused.Equal(now.Add(-time.Minute)) || !cmp.Equal(row.States, []model.State{model.StateRefused, model.StateAtFloor}) {
		t.Errorf("%+v", row)
	}
}

func TestDenialOf(t *testing.T) {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "web.1"}, Reason: denial.ReasonRefused, Note: denial.Note("no", "ann", "worker-1", "NoBudget", 6), EventTime: metav1.NewMicroTime(now),
		Regarding: corev1.ObjectReference{Kind: "PodProtector", Namespace: "shop", Name: "web"},
	}
	key, got, ok := model.DenialOf(denial.NewReader(), event)
	if !ok || key.String() != "shop/web" || got.Event != "web.1" || got.Count != 7 || got.Verdict != "NoBudget" || got.Message != "no" {
		t.Errorf("%s: %+v", key, got)
	}
	event.Regarding.Kind = "Pod"
	if _, _, ok := model.DenialOf(denial.NewReader(), event); ok {
		t.Error("DenialOf() of an event on a pod = ok, want false")
	}
}

func TestCountsFromBeforeRestoreAreIgnored(t *testing.T) {
	p := protector(3, 5, 0, func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.TermVersion = "100" })
	for restored, want := range map[uint64]int{0: 2, 99: 2, 100: 0, 200: 0} {
		row := model.RowOf(p, restored)
		if row.Allowed != want || p.Status.Cells[0].Aggregation.Void {
			t.Errorf("restored at %d: allowed = %d, want %d", restored, row.Allowed, want)
		}
	}
	if contributions := model.ProtectorOf(p, model.RowOf(p, 100), 100, now).Contributions; contributions[0].Counted {
		t.Errorf("%+v", contributions[0])
	}
}

func TestProtectorShowsShares(t *testing.T) {
	p := protector(6, 10, 0, func(p *v1alpha1.PodProtector) {
		p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 6, Reserved: 1, TermVersion: "1"}
	})
	row := model.RowOf(p, 0)
	v := model.ProtectorOf(p, row, 0, now)
	want := &status.FloorShare{Floor: 6, Budget: 3, UnderWay: 1}
	if diff := cmp.Diff(want, v.Contributions[0].FloorShare); diff != "" || !v.HasShares || v.Contributions[0].Reserved != 1 {
		t.Errorf("ProtectorOf() = %+v, has shares %v (-want +got):\n%s", v.Contributions[0], v.HasShares, diff)
	}
	if row.Available != 10 || row.Reserved != 1 || row.Allowed != 3 || len(row.States) > 0 {
		t.Errorf("RowOf() = %+v, want 10 available, 1 reserved, 3 allowed and no state", row)
	}
	if p := protector(6, 10, 0); model.ProtectorOf(p, model.RowOf(p, 0), 0, now).HasShares {
		t.Error("a protector without shares has shares")
	}
}

func TestFloorFrom(t *testing.T) {
	percent := intstr.FromString("70%")
	few := intstr.FromInt32(3)
	expected := func(n int32) func(*v1alpha1.PodProtector) {
		return func(p *v1alpha1.PodProtector) { p.Spec.ExpectedReplicas = &n }
	}
	for want, p := range map[string]*v1alpha1.PodProtector{
		"spec.minAvailable is 10.": protector(10, 12, 0),
		"spec.minAvailable is 70% of 10 expected pods: 7 must stay available. spec.expectedReplicas sets the number of expected pods.": protector(0, 10, 0, expected(10), func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = &percent }),
		"spec.maxUnavailable is 3, of 1 expected pod: 0 must stay available. spec.expectedReplicas sets the number of expected pods.":  protector(0, 10, 0, expected(1), func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable, p.Spec.MaxUnavailable = nil, &few }),
		"spec.minAvailable is 70% of the expected pods, whose number is unknown. The number of expected pods is what Deployment web requests across all cells.": protector(0, 10, 0, func(p *v1alpha1.PodProtector) {
			p.Spec.MinAvailable, p.Spec.TargetRef = &percent, &v1alpha1.TargetRef{Kind: "Deployment", Name: "web"}
		}),
	} {
		if got := strings.Join(model.ProtectorOf(p, model.RowOf(p, 0), 0, now).FloorFrom, " "); got != want {
			t.Errorf("FloorFrom = %q, want %q", got, want)
		}
	}
}

func TestReservationsAreSortedAndLimited(t *testing.T) {
	p := protector(10, 50, 25, func(p *v1alpha1.PodProtector) {
		h := &p.Status.Cells[0].AdmissionHistory
		h.Buckets = append(h.Buckets, v1alpha1.Bucket{Counter: 7, StartTime: metav1.NewMicroTime(now.Add(-time.Hour))})
		h.Buckets = append(h.Buckets, v1alpha1.Bucket{Counter: 1, PodUID: "z", Accounted: true})
	})
	v := model.ProtectorOf(p, model.RowOf(p, 0), 0, now)
	if len(v.Reservations) != 20 || v.MoreReservations != 12 || v.Reserved != 32 || v.Reservations[0].Pod != "web-y" || !v.Contributions[0].Oldest.Equal(now.Add(-time.Hour)) {
		t.Errorf("shows %d reservations, first %+v, %d more of %d; want 20, the oldest first, 12 more of 32", len(v.Reservations), v.Reservations[0], v.MoreReservations, v.Reserved)
	}
}

func TestCellIsStaleByOwnClock(t *testing.T) {
	beat := metav1.NewMicroTime(now.Add(-999 * time.Hour)) // the cell's clock is wrong
	for claim, c := range map[string]struct {
		heard model.Heartbeat
		said  metav1.ConditionStatus
		want  model.Freshness
	}{
		"its heartbeat changes":                                      {model.Heartbeat{At: now.Add(-10 * time.Second), Changed: true}, "True", model.Fresh},
		"its heartbeat changes, but its condition says stale":        {model.Heartbeat{At: now.Add(-10 * time.Second), Changed: true}, "False", model.Stale},
		"its heartbeat does not change, whatever its condition says": {model.Heartbeat{At: now.Add(-time.Minute), Changed: true}, "True", model.Stale},
		"one heartbeat was seen, without a condition":                {model.Heartbeat{At: now.Add(-time.Second)}, "Unknown", model.FreshnessUnknown},
		"one heartbeat was seen, and the condition says fresh":       {model.Heartbeat{At: now.Add(-time.Second)}, "True", model.Fresh},
		"no heartbeat was seen":                                      {model.Heartbeat{}, "Unknown", model.FreshnessUnknown},
	} {
		cell := &v1alpha1.Cell{Status: v1alpha1.CellStatus{
			Aggregator: v1alpha1.CellAggregator{LastHeartbeat: &beat}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAggregationFresh, Status: c.said}},
		}}
		if got := model.CellOf("", cell, c.heard, now); got.Freshness != c.want || got.Good != (c.want == model.Fresh) {
			t.Errorf("%s: got %s, good %v", claim, got.Freshness, got.Good)
		}
	}
}

func TestFleetOf(t *testing.T) {
	var rows []model.Row
	for i := range 120 {
		rows = append(rows, model.Row{Namespace: "n", Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Available: 1})
	}
	rows[77].States = []model.State{model.StateBelowFloor}
	rows[5].States = []model.State{model.StateAtFloor, model.StateSpread}
	for claim, c := range map[string]struct {
		query              model.Query
		first              string
		rows, found, pages int
	}{
		"the worst first":           {model.Query{}, rows[77].Name, 50, 120, 3},
		"the last page":             {model.Query{Page: 3}, "", 20, 120, 3},
		"a page beyond is the last": {model.Query{Page: 99}, "", 20, 120, 3},
		"one before is the first":   {model.Query{Page: -1}, rows[77].Name, 50, 120, 3},
		"by state":                  {model.Query{State: model.StateSpread}, rows[5].Name, 1, 1, 1},
		"by name":                   {model.Query{Text: "n/ba"}, "ba", 1, 1, 1},
		"none":                      {model.Query{Text: "zzz"}, "", 0, 0, 1},
	} {
		f := model.FleetOf(rows, c.query)
		if len(f.Rows) != c.rows || f.Found != c.found || f.Pages != c.pages || c.first != "" && f.Rows[0].Name != c.first || f.Totals.Protectors != 120 {
			t.Errorf("%s: %d rows of %d on %d pages", claim, len(f.Rows), f.Found, f.Pages)
		}
	}
}
