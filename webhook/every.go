package webhook

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// reserveAll reserves with each protector in turn. When one refuses or is unreachable, or the caller no longer waits
// for the answer, this request gives back its own part of the reservations.
func (p *Protection) reserveAll(ctx context.Context, charges []removal.Charge, attempt quota.Removal, r removal.Request) removal.Answer {
	var admitting []removal.Charge
	var reserved []reservation
	var forced *removal.Override
	for _, c := range charges {
		if c.Vanished { // the removal is forced, or RefusedByVanished would have refused it
			forced = &removal.Override{Verdict: removal.VerdictReason(quota.RefusedVanished), By: &c}
			continue
		}
		made := reservation{protector: p.ref(c), claim: &quota.Claim{}}
		answer, err := made.protector.core.reserve(ctx, c.Key, ask{removal: c.Ask(attempt), claim: made.claim})
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error(err, "A removal could not be reserved", "protector", c.String(), "pod", attempt.PodName)
			}
			if attempt.Force {
				if !apierrors.IsInvalid(err) { // an invalid charge would make every later write of the protector fail, too
					made.protector.core.debts.owe(c.Key, attempt)
				}
				forced = &removal.Override{Verdict: removal.VerdictUnreachable, By: &c}
				continue // the removal is admitted anyway, so all reservations must stay
			}
			// The batch may have been written despite the error.
			p.giveBack(ctx, append(reserved, made), attempt)
			return removal.RefuseUnreachable(charges, c, r, reasonOf(err))
		}
		verdict := answer.verdict
		made.elsewhere = answer.elsewhere
		switch {
		case answer.released:
			continue
		case !verdict.Outcome.Admitted() && attempt.Force:
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Outcome), By: &c}
			continue // as above
		case !verdict.Outcome.Admitted():
			p.giveBack(ctx, reserved, attempt)
			return removal.Refuse(charges, c, verdict, r)
		case !verdict.Claim.None():
			reserved = append(reserved, made)
		}
		if verdict.Forced != "" && forced == nil {
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Forced), By: &c}
		}
		admitting = append(admitting, c)
	}
	if err := ctx.Err(); err != nil && !attempt.Force {
		p.giveBack(ctx, reserved, attempt)
		return removal.RefuseUnreachable(charges, charges[len(charges)-1], r, reasonOf(err))
	}
	if len(admitting) == 0 && forced == nil {
		return removal.Allow(removal.VerdictUnprotected) // all protectors have been released since
	}
	answer := removal.Admit(removal.VerdictReserved, admitting)
	answer.Forced = forced
	return answer
}

// reasonOf returns the reason that a client sees for an error.
func reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no answer in time"
	}
	// The stack of a batch that panicked belongs only in the log.
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return reason
}

// reservation is one that a request has made, joined, or may have made with a protector.
type reservation struct {
	protector protectorRef
	claim     *quota.Claim
	// elsewhere reports that another replica has made it.
	elsewhere bool
}

// giveBackTime limits one attempt to give back. Reservations that it misses end with the admission deadline.
const giveBackTime = 5 * time.Second

// giveBack gives reservations back in the background, because the time of the caller is usually almost over.
func (p *Protection) giveBack(ctx context.Context, reserved []reservation, attempt quota.Removal) {
	for _, r := range reserved {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		p.background.Go(func() {
			defer cancel()
			back := ask{removal: attempt, claim: r.claim, giveBack: true, elsewhere: r.elsewhere}
			answer, err := r.protector.core.giveBack(ctx, r.protector.key, back)
			if answer.gaveBack {
				p.metrics.givenBack.WithLabelValues(r.protector.core.name).Inc()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				p.log.Error(err, "A reservation stays until its deadline", "protector", r.protector.String(), "pod", attempt.PodName)
			}
		})
	}
}
