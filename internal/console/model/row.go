package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// State is a noteworthy fact about a protector.
type State string

// States, worst first.
const (
	StateBelowFloor    State = "below-floor"    // fewer available pods than the floor
	StateFloorUnknown  State = "floor-unknown"  // the floor cannot be computed
	StateNotCounted    State = "not-counted"    // no cell has counted its pods with the current spec
	StateAboveExpected State = "above-expected" // more pods than expected for longer than a rollout: the floor may be too low
	StateVanished      State = "vanished"       // its workload was deleted without a release
	StateRestored      State = "restored"       // it vanished and was created again
	StateRefused       State = "refused"        // removals were denied recently
	StateAtFloor       State = "at-floor"       // no removal would be admitted
	StateSpread        State = "spread"         // its pods are not distributed as requested
	StateOverlapping   State = "overlapping"    // other protectors cover the same pods

	StateUnguarded    State = "unguarded"      // the cluster of a cell does not call the webhook for its namespace
	StateGuardUnknown State = "guard-unknown"  // it is unknown whether one does
	StateNoPods       State = "no-pods"        // no cell has a pod that it selects
	StateMisspelt     State = "misspelt"       // its workload has a label or annotation of Breakwater that has no effect
	StateScaledToZero State = "scaled-to-zero" // its workload is scaled to 0, which is no alarm
)

// States returns all states, worst first.
func States() []State {
	return []State{
		StateUnguarded, StateBelowFloor, StateFloorUnknown, StateNotCounted, StateAboveExpected, StateVanished, StateRestored, StateRefused, StateNoPods,
		StateGuardUnknown, StateMisspelt, StateAtFloor, StateSpread, StateOverlapping, StateScaledToZero,
	}
}

// RecentWindow is how long a denial counts as recent.
const RecentWindow = 15 * time.Minute

// Row is the short view of a protector.
type Row struct {
	// Core is the core cluster of the protector; empty if there is only one.
	Core string `json:"core,omitempty"`
	// Stale reports whether the core is unreachable: the row shows the last known data.
	Stale bool `json:"stale,omitempty"`
	// Path is the URL path of the protector's page.
	Path string `json:"-"`

	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Floor is the floor of the budget; 0 if unknown.
	Floor      int  `json:"floor"`
	FloorKnown bool `json:"floorKnown"`
	Available  int  `json:"available"`
	Reserved   int  `json:"reserved"`
	// Allowed is how many removals the webhook would admit now.
	Allowed int `json:"allowed"`
	// Expected is the number of expected pods; nil if unknown.
	Expected *int `json:"expected,omitempty"`
	// Cells is the number of cells that have counted its pods.
	Cells  int     `json:"cells"`
	States []State `json:"states"`
	// Refused is the number of recently denied removals that are known. LastRefused is the time of the last one.
	Refused     int        `json:"refusedLately"`
	LastRefused *time.Time `json:"lastRefused,omitempty"`
}

// RowOf returns the row of a protector, without modifying the protector. It ignores counts from before the core was restored at the
// version restored; 0 means never.
func RowOf(p *v1alpha1.PodProtector, restored uint64) Row {
	p = status.WithoutCountsUntil(p, restored)
	budget := quota.BudgetOf(p)
	row := Row{
		Namespace: p.Namespace, Name: p.Name, FloorKnown: !budget.FloorUnknown, Available: quota.Available(p), Reserved: budget.Reserved,
		Allowed: quota.Allowed(p),
	}
	if row.FloorKnown {
		row.Floor = budget.Floor
	}
	if expected, known := quota.Expected(p); known {
		row.Expected = &expected
	}
	counted := quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if p.Status.Cells[i].Aggregation.CountedSpec == counted {
			row.Cells++
		}
	}
	row.States = statesOf(p, row, budget)
	return row
}

func statesOf(p *v1alpha1.PodProtector, row Row, budget quota.Budget) (states []State) {
	is := func(kind string, value metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(p.Status.Conditions, kind, value)
	}
	has := func(gap status.Gap) bool { return slices.Contains(status.GapsOf(p), gap) }
	_, isRecreated := p.Annotations[v1alpha1.AnnotationRestored]
	for _, s := range []struct {
		state State
		holds bool
	}{
		{StateUnguarded, has(status.GapUnguarded)},
		{StateBelowFloor, row.FloorKnown && row.Cells > 0 && budget.Left() < 0},
		{StateFloorUnknown, !row.FloorKnown && row.Cells > 0},
		{StateNotCounted, row.Cells == 0},
		{StateAboveExpected, status.AboveExpected(p) > 0},
		{StateVanished, is(v1alpha1.ConditionTargetResolved, metav1.ConditionFalse)},
		{StateRestored, isRecreated || quota.IsRestorePending(p)},
		{StateNoPods, has(status.GapNoPods)},
		{StateGuardUnknown, has(status.GapGuardUnknown)},
		{StateMisspelt, has(status.GapMisspelt)},
		{StateAtFloor, row.FloorKnown && row.Cells > 0 && row.Floor > 0 && budget.Left() >= 0 && row.Allowed == 0},
		{StateSpread, is(v1alpha1.ConditionSpreadSatisfied, metav1.ConditionFalse)},
		{StateOverlapping, is(v1alpha1.ConditionOverlapping, metav1.ConditionTrue)},
		{StateScaledToZero, has(status.GapScaledToZero)},
	} {
		if s.holds {
			states = append(states, s.state)
		}
	}
	return states
}

// ID returns CORE/NAMESPACE/NAME, or NAMESPACE/NAME if there is only one core.
func (r *Row) ID() string {
	if r.Core == "" {
		return r.Namespace + "/" + r.Name
	}
	return r.Core + "/" + r.Namespace + "/" + r.Name
}

// Has reports whether the protector is in a state.
func (r *Row) Has(s State) bool { return slices.Contains(r.States, s) }

// WithRefusals returns the row with the recent denials added.
func (r Row) WithRefusals(denials []Denial, now time.Time) Row {
	for i := range denials {
		d := &denials[i]
		if d.Forced || now.Sub(d.Last) >= RecentWindow {
			continue
		}
		r.Refused += d.Count
		if r.LastRefused == nil || d.Last.After(*r.LastRefused) {
			r.LastRefused = &d.Last
		}
	}
	if r.Refused > 0 && !r.Has(StateRefused) {
		r.States = append(slices.Clone(r.States), StateRefused)
		slices.SortFunc(r.States, func(a, b State) int { return slices.Index(States(), a) - slices.Index(States(), b) })
	}
	return r
}

// Sample returns the numbers of the row for its history.
func (r *Row) Sample() history.Sample {
	return history.Sample{
		Available: int32(r.Available), Reserved: int32(r.Reserved), Floor: int32(r.Floor), FloorKnown: r.FloorKnown, Known: r.Cells > 0,
	}
}
