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

// State is something about a protector that a person should know.
type State string

// The states, the worst first.
const (
	StateBelowFloor   State = "below-floor"   // fewer pods are left than must stay
	StateFloorUnknown State = "floor-unknown" // there is nothing to reckon the floor from
	StateNotCounted   State = "not-counted"   // no cell has counted its pods by the current spec
	StateVanished     State = "vanished"      // its workload is gone and nobody has released it
	StateRestored     State = "restored"      // it vanished, and was made anew
	StateRefused      State = "refused"       // removals were refused lately
	StateAtFloor      State = "at-floor"      // no pod may go
	StateSpread       State = "spread"        // its pods are not shared out as they should be
	StateOverlapping  State = "overlapping"   // others cover the same pods
)

// States are all of them, the worst first.
func States() []State {
	return []State{
		StateBelowFloor, StateFloorUnknown, StateNotCounted, StateVanished, StateRestored, StateRefused, StateAtFloor, StateSpread, StateOverlapping,
	}
}

// Lately is how long what was refused is news.
const Lately = 15 * time.Minute

// Row is a protector in a few words.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Floor is as in Budget, 0 while it is not known.
	Floor      int  `json:"floor"`
	FloorKnown bool `json:"floorKnown"`
	Available  int  `json:"available"`
	Reserved   int  `json:"reserved"`
	// Allowed is how many removals would be admitted now.
	Allowed int `json:"allowed"`
	// Expected is how many pods there should be; nil while that is not known.
	Expected *int `json:"expected,omitempty"`
	// Cells is how many have counted its pods.
	Cells  int     `json:"cells"`
	States []State `json:"states"`
	// Refused is how many removals are known to have been refused lately, and LastRefused when the last one was.
	Refused     int        `json:"refusedLately"`
	LastRefused *time.Time `json:"lastRefused,omitempty"`
}

// RowOf says of a protector what its object does. It is not changed. Counts are worth nothing that were made before a version of the
// core at which it was restored; 0 is never.
func RowOf(p *v1alpha1.PodProtector, restored uint64) Row {
	p = status.Voided(p, restored)
	budget := quota.BudgetOf(p)
	row := Row{
		Namespace: p.Namespace, Name: p.Name, FloorKnown: !budget.FloorUnknown, Available: budget.Available, Reserved: budget.Reserved,
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
	is := func(kind string, status metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(p.Status.Conditions, kind, status)
	}
	_, anew := p.Annotations[v1alpha1.AnnotationRestored]
	for _, s := range []struct {
		state State
		holds bool
	}{
		{StateBelowFloor, row.FloorKnown && row.Cells > 0 && budget.Left() < 0},
		{StateFloorUnknown, !row.FloorKnown && row.Cells > 0},
		{StateNotCounted, row.Cells == 0},
		{StateVanished, is(v1alpha1.ConditionTargetResolved, metav1.ConditionFalse)},
		{StateRestored, anew || quota.Unfinished(p)},
		{StateAtFloor, row.FloorKnown && row.Cells > 0 && row.Floor > 0 && budget.Left() >= 0 && row.Allowed == 0},
		{StateSpread, is(v1alpha1.ConditionSpreadSatisfied, metav1.ConditionFalse)},
		{StateOverlapping, is(v1alpha1.ConditionOverlapping, metav1.ConditionTrue)},
	} {
		if s.holds {
			states = append(states, s.state)
		}
	}
	return states
}

// Has tells whether a state is among those of the protector.
func (r *Row) Has(s State) bool { return slices.Contains(r.States, s) }

// WithRefusals is the row with what was refused lately.
func (r Row) WithRefusals(denials []Denial, now time.Time) Row {
	for i := range denials {
		d := &denials[i]
		if d.Forced || now.Sub(d.Last) >= Lately {
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

// Sample is what a timeline keeps of the row.
func (r *Row) Sample() history.Sample {
	return history.Sample{
		Available: int32(r.Available), Reserved: int32(r.Reserved), Floor: int32(r.Floor), FloorKnown: r.FloorKnown, Known: r.Cells > 0,
	}
}
