package removal

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// CheckVanished returns the denial by a protector that vanished, with which no removal can be reserved (rule 10). It returns nil if none
// vanished, or for a break-glass removal.
func CheckVanished(charges []Charge, r Request) *Denial {
	i := slices.IndexFunc(charges, func(c Charge) bool { return c.Vanished })
	if i < 0 || r.IsBreakGlass() && !r.DryRun {
		return nil
	}
	decision := quota.Verdict{Outcome: quota.DeniedVanished, Budget: quota.BudgetOf(charges[i].Protector)}
	return &Denial{Cause: CauseProtector, By: &charges[i], Decision: decision}
}

// Preview checks all budgets before any of them is charged (rule 7), so that a removal that one protector denies need not be reserved with the
// others and given back, and a denial needs no write, no other replica and no wait for a batch. It returns the denial, or nil. The
// reservation decides again, and so does a denial that has to be recorded, except of a dry run, which records nothing.
func Preview(charges []Charge, attempt quota.Removal, r Request) *Denial {
	for i, c := range charges {
		isRecorded := !r.DryRun && quota.RecordsWanted(c.Protector)
		if verdict := c.Decide(attempt); !verdict.Outcome.Admitted() && (verdict.Outcome != quota.DeniedNoBudget || !isRecorded) {
			return &Denial{Cause: CauseProtector, By: &charges[i], Decision: verdict}
		}
	}
	return nil
}

// Decide returns the protector's verdict on an attempt, without changing the protector.
func (c Charge) Decide(attempt quota.Removal) quota.Verdict {
	return quota.Decide(c.Protector.DeepCopy(), []quota.Removal{c.AttemptFor(attempt)})[0]
}

// DecideDryRun returns the webhook's answer to a dry run of a removal, given the protectors that cover the pod, with the same steps as the webhook.
// The charges must have the pod's domain for those that need it.
func DecideDryRun(covering []Charge, inCell bool, cell string, r Request, now time.Time) Answer {
	r.DryRun = true
	if r.IsAlwaysAllowed() {
		return Admit(VerdictNotAvailable).Answer(cell, r)
	}
	covering = slices.Clone(covering)
	AssessAll(covering, cell, r, now)
	charges, free := ChargesFor(covering, inCell, r)
	decision := Admit(VerdictDryRun, charges...)
	if len(charges) == 0 {
		decision = Admit(free)
	} else if denial := cmp.Or(CheckVanished(charges, r), Preview(charges, r.Attempt(cell, now, ""), r)); denial != nil {
		decision = Deny(denial, charges...)
	}
	if r.IsBreakGlass() {
		decision = decision.Force(r.BreakGlassReason())
	}
	return decision.Answer(cell, r)
}
