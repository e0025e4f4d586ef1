package removal

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// DenyVanished returns the denial for a protector that vanished, with which no removal can be reserved. It returns nil if none
// vanished, or for a break-glass removal.
func DenyVanished(charges []Charge, r Request) *Answer {
	i := slices.IndexFunc(charges, func(c Charge) bool { return c.Vanished })
	if i < 0 || r.IsBreakGlass() && !r.DryRun {
		return nil
	}
	denial := Deny(charges, charges[i], quota.Verdict{Outcome: quota.DeniedVanished, Budget: quota.BudgetOf(charges[i].Protector)}, r)
	return &denial
}

// Preview checks all budgets before any of them is charged, so that a removal that one protector denies need not be reserved with the
// others and given back, and a denial needs no write, no other replica and no wait for a batch. It returns the denial, or nil. The
// reservation decides again, and so does a denial that has to be recorded, except of a dry run, which records nothing.
func Preview(charges []Charge, attempt quota.Removal, r Request) *Answer {
	for _, c := range charges {
		isRecorded := !r.DryRun && quota.RecordsWanted(c.Protector)
		if verdict := c.Decide(attempt); !verdict.Outcome.Admitted() && (verdict.Outcome != quota.DeniedNoBudget || !isRecorded) {
			denial := Deny(charges, c, verdict, r)
			return &denial
		}
	}
	return nil
}

// Decide returns the protector's verdict on an attempt, without changing the protector.
func (c Charge) Decide(attempt quota.Removal) quota.Verdict {
	return quota.Decide(c.Protector.DeepCopy(), []quota.Removal{c.AttemptFor(attempt)})[0]
}

// DecideDryRun returns the webhook's answer to a dry run of a removal, given the protectors that cover the pod. The charges must have the
// pod's domain for those that need it.
func DecideDryRun(covering []Charge, inCell bool, cell string, r Request, now time.Time) Answer {
	r.DryRun = true
	if r.IsAlwaysAllowed() {
		return AllowUncharged(VerdictNotAvailable)
	}
	answer := decideDryRun(covering, inCell, cell, r, now)
	if r.IsBreakGlass() {
		answer = answer.AdmitBreakGlass(r.BreakGlassReason())
	}
	return answer
}

func decideDryRun(covering []Charge, inCell bool, cell string, r Request, now time.Time) Answer {
	charges, free := ChargesFor(slices.Clone(covering), inCell, cell, r, now)
	if len(charges) == 0 {
		return AllowUncharged(free)
	}
	if denial := DenyVanished(charges, r); denial != nil {
		return *denial
	}
	if denial := Preview(charges, r.Attempt(cell, now, ""), r); denial != nil {
		return *denial
	}
	return AllowCharged(VerdictDryRun, charges)
}
