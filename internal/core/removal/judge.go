package removal

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// RefusedByVanished is the refusal of a protector that vanished: nothing can be reserved with it. It is nil when none has, or when
// the glass is broken.
func RefusedByVanished(charges []Charge, r Request) *Answer {
	i := slices.IndexFunc(charges, func(c Charge) bool { return c.Vanished })
	if i < 0 || r.Forced() && !r.DryRun {
		return nil
	}
	refusal := Refuse(charges, charges[i], quota.Verdict{Outcome: quota.RefusedVanished, Budget: quota.BudgetOf(charges[i].Protector)}, r)
	return &refusal
}

// Preview looks at all budgets before any is touched: a removal that one of them refuses anyway need not reserve in the others and give
// back. It returns the refusal, nil if there is none. A single protector is left alone, since asking it decides as well, and once.
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

// Decide is what the protector says to an attempt, which leaves it as it was.
func (c Charge) Decide(attempt quota.Removal) quota.Verdict {
	return quota.Decide(c.Protector.DeepCopy(), []quota.Removal{c.Ask(attempt)})[0]
}

// Judge is the answer of the webhook to a dry run of a removal, when it knows the protectors that cover the pod as they are given,
// with the domain of the pod for those that mind it.
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
