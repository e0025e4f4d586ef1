package topology

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// mostTold is how many protectors have metrics of their own: those that admit the fewest removals come first.
const mostTold = 1000

// budget summarizes the budget of a protector in a word.
type budget string

const (
	// budgetOpen admits removals.
	budgetOpen budget = "Open"
	// budgetExhausted admits none, and keeps its floor.
	budgetExhausted budget = "Exhausted"
	// budgetBroken has fewer pods than its floor.
	budgetBroken budget = "Broken"
)

// books summarize the protectors of a core at one time, from the informational fields of their status.
type books struct {
	byBudget map[budget]int
	// reserved is the number of open reservations by cell, and oldest the time at which the oldest was last written or renewed.
	reserved map[string]int
	oldest   map[string]time.Time
	accounts []account
}

// account is the summary of one protector.
type account struct {
	namespace, name                   string
	available, floor, reserved, limit int
	// left is the remaining budget; it is negative if the floor is already broken. allowed is the number of removals that would be
	// admitted, which other limits also determine.
	left, allowed int
	oldest        time.Time
}

func accountOf(p *v1alpha1.PodProtector) account {
	sum := &p.Status.Summary
	return account{
		namespace: p.Namespace, name: p.Name, available: int(sum.Available), floor: int(p.Status.DesiredAvailable),
		reserved: int(sum.Reserved), limit: int(p.Spec.AdmissionHistory.MaxConcurrentLag),
		left: int(sum.EstimatedAvailable - p.Status.DesiredAvailable), allowed: int(p.Status.DisruptionsAllowed),
	}
}

func (a *account) budget() budget {
	switch {
	case a.available < a.floor:
		return budgetBroken
	case a.allowed == 0:
		return budgetExhausted
	default:
		return budgetOpen
	}
}

// bookkeep summarizes protectors, and keeps the accounts of those with the least budget, at most that many.
func bookkeep(protectors []v1alpha1.PodProtector, most int) books {
	b := books{
		byBudget: map[budget]int{budgetOpen: 0, budgetExhausted: 0, budgetBroken: 0},
		reserved: map[string]int{}, oldest: map[string]time.Time{}, accounts: make([]account, 0, len(protectors)),
	}
	for i := range protectors {
		a := accountOf(&protectors[i])
		for c := range protectors[i].Status.Cells {
			cell := &protectors[i].Status.Cells[c]
			b.reserved[cell.CellID] += quota.Open(&cell.AdmissionHistory)
			oldest := oldestOf(&cell.AdmissionHistory)
			b.oldest[cell.CellID], a.oldest = earlier(b.oldest[cell.CellID], oldest), earlier(a.oldest, oldest)
		}
		b.byBudget[a.budget()]++
		b.accounts = append(b.accounts, a)
	}
	slices.SortFunc(b.accounts, func(x, y account) int {
		return cmp.Or(cmp.Compare(x.allowed, y.allowed), cmp.Compare(x.left, y.left), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	b.accounts = b.accounts[:min(len(b.accounts), most)]
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
