package removal

// Decision is what was decided about a request, not yet in words: an admission, or a denial.
type Decision struct {
	// Verdict is the reason of an admission. It is empty for a denial.
	Verdict VerdictReason
	// Denial is nil for an admission.
	Denial *Denial
	// Charges are the protectors that were asked.
	Charges []Charge
	// Overridden is the denial that was overridden to admit the removal. It is nil if there was none.
	Overridden *Override
}

// Admit returns an admission. charges are the protectors that were asked; none if the request consumes no budget.
func Admit(verdict VerdictReason, charges ...Charge) Decision {
	return Decision{Verdict: verdict, Charges: charges}
}

// Deny returns a denial. asked are the protectors that were asked, if one of them denies.
func Deny(denial *Denial, asked ...Charge) Decision { return Decision{Denial: denial, Charges: asked} }

// Force returns the decision about a removal with the break-glass annotation, which no denial by a protector prevents. reason is the user's reason.
func (d Decision) Force(reason string) Decision {
	switch {
	case d.Denial != nil:
		charges := d.Charges
		if d.Denial.By == nil {
			charges = nil
		}
		return Decision{
			Verdict: VerdictForced, Charges: charges, Overridden: &Override{Verdict: d.Denial.Verdict(), DeniedBy: d.Denial.By, Reason: reason},
		}
	case d.Overridden != nil:
		return Decision{
			Verdict: VerdictForced, Charges: d.Charges, Overridden: &Override{Verdict: d.Overridden.Verdict, DeniedBy: d.Overridden.DeniedBy, Reason: reason},
		}
	default:
		return d // the removal did not need it
	}
}

// Answer words the decision for the client.
func (d Decision) Answer(cell string, r Request) Answer {
	if d.Denial != nil {
		return d.Denial.answer(cell, r, d.Charges)
	}
	return Answer{Allowed: true, Verdict: d.Verdict, Operation: r.Operation, Protectors: chargeNames(d.Charges), Overridden: d.Overridden}
}

func chargeNames(charges []Charge) []string {
	all := make([]string, 0, len(charges))
	for _, c := range charges {
		all = append(all, c.String())
	}
	return all
}
