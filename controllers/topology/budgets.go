package topology

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// maxReportedProtectors is how many protectors have metrics of their own: those that admit the fewest removals come first.
const maxReportedProtectors = 1000

// budgetState summarizes the budget of a protector in a word.
type budgetState string

const (
	// budgetOpen admits removals.
	budgetOpen budgetState = "Open"
	// budgetExhausted admits none, and keeps its floor.
	budgetExhausted budgetState = "Exhausted"
	// budgetBroken has fewer pods than its floor.
	budgetBroken budgetState = "Broken"
)

// budgetSummary summarize the protectors of a core at one time, from the informational fields of their status.
type budgetSummary struct {
	byBudget map[budgetState]int
	// reserved is the number of open reservations by cell, and oldest the time at which the oldest was last written or renewed.
	reserved   map[string]int
	oldest     map[string]time.Time
	protectors []protectorBudget
}

type protectorBudget struct {
	namespace, name                   string
	available, floor, reserved, limit int
	// remaining is the remaining budget; it is negative if the floor is already broken. allowed is the number of removals that would be
	// admitted, which other limits also determine.
	remaining, allowed int
	oldest             time.Time
}

func protectorBudgetOf(p *v1alpha1.PodProtector) protectorBudget {
	sum := &p.Status.Summary
	return protectorBudget{
		namespace: p.Namespace, name: p.Name, available: int(sum.Available), floor: int(p.Status.DesiredAvailable),
		reserved: int(sum.Reserved), limit: int(p.Spec.AdmissionHistory.MaxConcurrentLag),
		remaining: int(sum.EstimatedAvailable - p.Status.DesiredAvailable), allowed: int(p.Status.DisruptionsAllowed),
	}
}

func (a *protectorBudget) state() budgetState {
	switch {
	case a.available < a.floor:
		return budgetBroken
	case a.allowed == 0:
		return budgetExhausted
	default:
		return budgetOpen
	}
}

// summarize summarizes protectors, and keeps the accounts of those with the least budget, at most that many.
func summarize(protectors []v1alpha1.PodProtector, maxProtectors int) budgetSummary {
	b := budgetSummary{
		byBudget: map[budgetState]int{budgetOpen: 0, budgetExhausted: 0, budgetBroken: 0},
		reserved: map[string]int{}, oldest: map[string]time.Time{}, protectors: make([]protectorBudget, 0, len(protectors)),
	}
	for i := range protectors {
		a := protectorBudgetOf(&protectors[i])
		for c := range protectors[i].Status.Cells {
			cell := &protectors[i].Status.Cells[c]
			b.reserved[cell.CellID] += quota.Open(&cell.AdmissionHistory)
			oldest := oldestOf(&cell.AdmissionHistory)
			b.oldest[cell.CellID], a.oldest = earlier(b.oldest[cell.CellID], oldest), earlier(a.oldest, oldest)
		}
		b.byBudget[a.state()]++
		b.protectors = append(b.protectors, a)
	}
	slices.SortFunc(b.protectors, func(x, y protectorBudget) int {
		return cmp.Or(cmp.Compare(x.allowed, y.allowed), cmp.Compare(x.remaining, y.remaining), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	b.protectors = b.protectors[:min(len(b.protectors), maxProtectors)]
	return b
}

// oldestOf returns when the oldest open reservation was last written or renewed; zero if there is none.
func oldestOf(h *v1alpha1.AdmissionHistory) (oldest time.Time) {
	for i := range h.Buckets {
		if !h.Buckets[i].Accounted {
			oldest = earlier(oldest, h.Buckets[i].StartTime.Time)
		}
	}
	return oldest
}

// earlier returns the earlier of two times, where zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
