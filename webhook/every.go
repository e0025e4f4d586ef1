package webhook

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// preview looks at all budgets before any is touched, from memory: a removal that one of them refuses anyway
// need not reserve in the others and give back. It returns the refusal, nil if there is none.
func preview(charges []charge, removal quota.Removal, r Request) *Answer {
	if len(charges) == 1 && !r.DryRun {
		return nil // the flight itself decides as well, and once
	}
	for _, c := range charges {
		verdict := quota.Decide(c.protector.DeepCopy(), []quota.Removal{c.ask(removal)})[0]
		if !verdict.Outcome.Admitted() {
			refusal := refuse(charges, c, verdict, r)
			return &refusal
		}
	}
	return nil
}

// reserveAll reserves with each protector in turn. When one refuses, or cannot be asked, or nobody waits for
// the answer any more, this very request gives back its part in what is reserved.
func (p *Protection) reserveAll(ctx context.Context, charges []charge, removal quota.Removal, r Request) Answer {
	var admitting []charge
	var reserved []reservation
	var forced *override
	for _, c := range charges {
		if c.vanished { // the removal is forced, or it would not have come so far
			forced = &override{VerdictReason(quota.RefusedVanished), &c}
			continue
		}
		made := reservation{charge: c, claim: &quota.Claim{}}
		answer, err := c.core.reserve(ctx, c.key, ask{removal: c.ask(removal), claim: made.claim})
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error(err, "A removal could not be reserved", "protector", c.String(), "pod", removal.PodName)
			}
			if removal.Force {
				if !apierrors.IsInvalid(err) { // what the core takes from nobody would keep all others from it, too
					c.core.debts.owe(c.key, removal)
				}
				forced = &override{VerdictUnreachable, &c}
				continue // it goes all the same, so that whatever is reserved must stay
			}
			// The flight may have gone through all the same.
			p.giveBack(ctx, append(reserved, made), removal)
			return refuseUnreachable(charges, c, r, err)
		}
		verdict := answer.verdict
		made.elsewhere = answer.elsewhere
		switch {
		case answer.released:
			continue
		case !verdict.Outcome.Admitted() && removal.Force:
			forced = &override{VerdictReason(verdict.Outcome), &c}
			continue // likewise
		case !verdict.Outcome.Admitted():
			p.giveBack(ctx, reserved, removal)
			return refuse(charges, c, verdict, r)
		case !verdict.Claim.None():
			reserved = append(reserved, made)
		}
		if verdict.Forced != "" && forced == nil {
			forced = &override{VerdictReason(verdict.Forced), &c}
		}
		admitting = append(admitting, c)
	}
	if err := ctx.Err(); err != nil && !removal.Force {
		p.giveBack(ctx, reserved, removal)
		return refuseUnreachable(charges, charges[len(charges)-1], r, err)
	}
	if len(admitting) == 0 && forced == nil {
		return allow(VerdictUnprotected) // all protectors have been deleted since
	}
	answer := admit(VerdictReserved, admitting)
	answer.forced = forced
	return answer
}

// reservation is one that a request has made or joined, or may have, with a protector.
type reservation struct {
	charge charge
	claim  *quota.Claim
	// elsewhere tells that another replica has made it.
	elsewhere bool
}

// giveBackTime bounds the giving back; what it cannot do, the admission deadline does later.
const giveBackTime = 5 * time.Second

// giveBack returns reservations in the background: the caller's time is mostly up when it is called.
func (p *Protection) giveBack(ctx context.Context, reserved []reservation, removal quota.Removal) {
	for _, r := range reserved {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		p.background.Go(func() {
			defer cancel()
			back := ask{removal: removal, claim: r.claim, giveBack: true, elsewhere: r.elsewhere}
			answer, err := r.charge.core.flights.Do(ctx, r.charge.key, back)
			if answer.gaveBack {
				p.metrics.givenBack.WithLabelValues(r.charge.core.name).Inc()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				p.log.Error(err, "A reservation stays until its deadline", "protector", r.charge.String(), "pod", removal.PodName)
			}
		})
	}
}
