package removal

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// RefusedByVanished returns the denial for a protector that vanished, with which no removal can be reserved. It returns nil if none
// vanished, or for a break-glass removal.
func RefusedByVanished(charges []Charge, r Request) *Answer {
	i := slices.IndexFunc(charges, func(c Charge) bool { return c.Vanished })
	if i < 0 || r.Forced() && !r.DryRun {
		return nil
	}
	refusal := Refuse(charges, charges[i], quota.Verdict{Outcome: quota.RefusedVanished, Budget: quota.BudgetOf(charges[i].Protector)}, r)
	return &refusal
}

// Preview checks all budgets before any of them is charged, so that a removal that one protector denies need not be reserved with the
// others and given back. It returns the denial, or nil. It skips a single protector, because the reservation itself decides, in one
// step.
func Preview(charges []Charge, attempt quota.Removal, r Request) *Answer {
	if len(charges) == 1 && !r.DryRun {
		return nil
	}
	for _, c := range charges {
		if verdict := c.Decide(attempt); !verdict.Outcome.Admitted() {
			refusal := Refuse(charges, c, verdict, r)
			return &refusal
		}
	}
	return nil
}

// Decide returns the protector's verdict on an attempt, without changing the protector.
func (c Charge) Decide(attempt quota.Removal) quota.Verdict {
	return quota.Decide(c.Protector.DeepCopy(), []quota.Removal{c.Ask(attempt)})[0]
}

// Judge returns the webhook's answer to a dry run of a removal, given the protectors that cover the pod. The charges must have the
// pod's domain for those that need it.
func Judge(covering []Charge, belongs bool, cell string, r Request, now time.Time) Answer {
	r.DryRun = true
	if r.Passes() {
		return Allow(VerdictNotAvailable)
	}
	answer := judge(covering, belongs, cell, r, now)
	if r.Forced() {
		answer = answer.BreakGlass(r.ForceReason())
	}
	return answer
}

func judge(covering []Charge, belongs bool, cell string, r Request, now time.Time) Answer {
	charges, free := Charged(slices.Clone(covering), belongs, cell, r, now)
	if len(charges) == 0 {
		return Allow(free)
	}
	if refusal := RefusedByVanished(charges, r); refusal != nil {
		return *refusal
	}
	if refusal := Preview(charges, r.Attempt(cell, now, ""), r); refusal != nil {
		return *refusal
	}
	return Admit(VerdictDryRun, charges)
}
