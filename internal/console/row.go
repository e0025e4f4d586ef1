package console

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// state is a noteworthy fact about a protector.
type state string

const (
	stateBelowFloor    state = "below-floor"
	stateFloorUnknown  state = "floor-unknown"
	stateNotCounted    state = "not-counted" // no cell has counted its pods with the current spec
	stateAboveExpected state = "above-expected"
	stateVanished      state = "vanished" // its workload was deleted without a release
	stateRestored      state = "restored"
	stateDenied        state = "refused"  // removals were denied recently
	stateAtFloor       state = "at-floor" // no removal would be admitted
	stateSpread        state = "spread"
	stateOverlapping   state = "overlapping"
	stateUnguarded     state = "unguarded"
	stateGuardUnknown  state = "guard-unknown"
	stateNoPods        state = "no-pods"
	stateMisspelt      state = "misspelt"
	stateScaledToZero  state = "scaled-to-zero"
)

// stateRule says how a state is displayed, and which protectors are in it.
type stateRule struct {
	state state
	text  string
	holds func(*status.Protector) bool
}

// stateRules returns the rules of all states, worst first.
func stateRules() []stateRule {
	condition := func(kind, value string) func(*status.Protector) bool {
		return func(v *status.Protector) bool {
			return slices.ContainsFunc(v.Conditions, func(c status.Condition) bool { return c.Type == kind && c.Status == value })
		}
	}
	gap := func(s state, gap status.Gap) stateRule {
		return stateRule{s, gap.Text(), func(v *status.Protector) bool { return slices.Contains(v.Gaps, gap) }}
	}
	return []stateRule{
		gap(stateUnguarded, status.GapUnguarded),
		{stateBelowFloor, "below floor", func(v *status.Protector) bool { return countedCells(v) > 0 && v.BelowFloor() > 0 }},
		{stateFloorUnknown, "floor unknown", func(v *status.Protector) bool { return countedCells(v) > 0 && v.Floor.Pods == nil }},
		{stateNotCounted, "not counted", func(v *status.Protector) bool { return countedCells(v) == 0 }},
		{stateAboveExpected, "more pods than expected", func(v *status.Protector) bool { return v.AboveExpected > 0 }},
		{stateVanished, "target vanished", condition(v1alpha1.ConditionTargetResolved, "False")},
		{stateRestored, "restored", func(v *status.Protector) bool { return v.Restored }},
		{stateDenied, "recently refused", func(*status.Protector) bool { return false }}, // listing.withRefusals adds it
		gap(stateNoPods, status.GapNoPods),
		gap(stateGuardUnknown, status.GapGuardUnknown),
		gap(stateMisspelt, status.GapMisspelt),
		{stateAtFloor, "at floor", func(v *status.Protector) bool {
			return countedCells(v) > 0 && v.Floor.Pods != nil && *v.Floor.Pods > 0 && v.BelowFloor() == 0 && v.Allowed == 0
		}},
		{stateSpread, "spread unsatisfied", condition(v1alpha1.ConditionSpreadSatisfied, "False")},
		{stateOverlapping, "overlapping", condition(v1alpha1.ConditionOverlapping, "True")},
		gap(stateScaledToZero, status.GapScaledToZero),
	}
}

// states returns all states, worst first.
func states() (all []state) {
	for _, r := range stateRules() {
		all = append(all, r.state)
	}
	return all
}

// Text returns the display name of a state.
func (s state) Text() string {
	for _, r := range stateRules() {
		if r.state == s {
			return r.text
		}
	}
	return string(s)
}

// countedCells returns the number of cells that have counted the pods with the current spec.
func countedCells(v *status.Protector) (count int) {
	for i := range v.Cells {
		if worthless := v.Cells[i].Worthless; worthless == "" || worthless == status.WorthlessVoid {
			count++
		}
	}
	return count
}

// recentWindow is how long a denial counts as recent.
const recentWindow = 15 * time.Minute

// listing is what the console shows of a protector besides its status.
type listing struct {
	// CoreUnreachable reports whether the core is unreachable: the last known data are shown.
	CoreUnreachable bool    `json:"coreUnreachable,omitempty"`
	States          []state `json:"states"`
	// Denied is the number of recently denied removals that are known. LastDenied is the time of the last one.
	Denied     int        `json:"refusedLately"`
	LastDenied *time.Time `json:"lastRefused,omitempty"`
}

// row is the short view of a protector.
type row struct {
	listing
	// Core is the core cluster of the protector; empty if there is only one.
	Core string `json:"core,omitempty"`
	// Path is the URL path of the protector's page.
	Path string `json:"-"`

	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Floor is nil if it is unknown.
	Floor     *int `json:"floor,omitempty"`
	Available int  `json:"available"`
	UnderWay  int  `json:"underWay"`
	// Allowed is how many removals the webhook would admit now.
	Allowed int `json:"allowed"`
	// Expected is the number of expected pods; nil if it is unknown or not needed.
	Expected *int `json:"expected,omitempty"`
	// Cells is the number of cells that have counted its pods.
	Cells int `json:"cells"`
}

// statusOf returns the status of a protector. It ignores counts from before the core was restored at the version restored; 0 means never.
func statusOf(core string, p *v1alpha1.PodProtector, restored uint64, now time.Time) status.Protector {
	return status.Of(core, status.WithoutCountsUntil(p, restored), nil, now)
}

func listingOf(v *status.Protector) (l listing) {
	for _, r := range stateRules() {
		if r.holds(v) {
			l.States = append(l.States, r.state)
		}
	}
	return l
}

// rowOf returns the row of a protector.
func rowOf(v *status.Protector) row {
	return row{
		listing: listingOf(v), Namespace: v.Namespace, Name: v.Name, Floor: v.Floor.Pods, Available: v.Available, UnderWay: v.UnderWay, Allowed: v.Allowed,
		Expected: v.Floor.Expected, Cells: countedCells(v),
	}
}

// objectID returns CORE/NAMESPACE/NAME, or NAMESPACE/NAME if there is only one core.
func objectID(core, namespace, name string) string {
	if core == "" {
		return namespace + "/" + name
	}
	return core + "/" + namespace + "/" + name
}

// ID returns CORE/NAMESPACE/NAME, or NAMESPACE/NAME if there is only one core.
func (r *row) ID() string { return objectID(r.Core, r.Namespace, r.Name) }

func (l *listing) has(s state) bool { return slices.Contains(l.States, s) }

// withDenials returns the listing with the recent denials added.
func (l listing) withDenials(denials []denial.Denial, now time.Time) listing {
	for i := range denials {
		d := &denials[i]
		if d.Forced || now.Sub(d.Last) >= recentWindow {
			continue
		}
		l.Denied += d.Count
		if l.LastDenied == nil || d.Last.After(*l.LastDenied) {
			l.LastDenied = &d.Last
		}
	}
	if l.Denied > 0 && !l.has(stateDenied) {
		order := states()
		l.States = append(slices.Clone(l.States), stateDenied)
		slices.SortFunc(l.States, func(a, b state) int { return slices.Index(order, a) - slices.Index(order, b) })
	}
	return l
}

// sample returns the numbers of the row for its history.
func (r *row) sample() history.Sample {
	sample := history.Sample{Available: int32(r.Available), Reserved: int32(r.UnderWay), Known: r.Cells > 0}
	if r.Floor != nil {
		sample.Floor, sample.FloorKnown = int32(*r.Floor), true
	}
	return sample
}
