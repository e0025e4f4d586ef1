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
			forced = &removal.Override{Verdict: removal.VerdictReason(quota.DeniedVanished), DeniedBy: &c}
			continue
		}
		attempted := reservation{protector: p.ref(c), claim: &quota.Claim{}}
		answer, err := attempted.protector.core.reserve(ctx, c.Key, historyOp{removal: c.AttemptFor(attempt), claim: attempted.claim})
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error(err, "Could not reserve removal", "protector", c.String(), "pod", attempt.PodName)
			}
			if attempt.Force {
				if !apierrors.IsInvalid(err) { // an invalid charge would make every later write of the protector fail, too
					attempted.protector.core.pendingCharges.add(c.Key, attempt)
				}
				forced = &removal.Override{Verdict: removal.VerdictUnreachable, DeniedBy: &c}
				continue // the removal is admitted anyway, so all reservations must stay
			}
			// The batch may have been written despite the error.
			p.giveBack(ctx, append(reserved, attempted), attempt)
			return removal.DenyUnreachable(charges, c, r, clientReason(err))
		}
		verdict := answer.verdict
		attempted.byPeer = answer.byPeer
		switch {
		case answer.released:
			continue
		case !verdict.Outcome.Admitted() && attempt.Force:
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Outcome), DeniedBy: &c}
			continue // as above
		case !verdict.Outcome.Admitted():
			p.giveBack(ctx, reserved, attempt)
			return removal.Deny(charges, c, verdict, r)
		case !verdict.Claim.IsEmpty():
			reserved = append(reserved, attempted)
		}
		if verdict.Forced != "" && forced == nil {
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Forced), DeniedBy: &c}
		}
		admitting = append(admitting, c)
	}
	if err := ctx.Err(); err != nil && !attempt.Force {
		p.giveBack(ctx, reserved, attempt)
		return removal.DenyUnreachable(charges, charges[len(charges)-1], r, clientReason(err))
	}
	if len(admitting) == 0 && forced == nil {
		return removal.AllowUncharged(removal.VerdictUnprotected) // all protectors have been released since
	}
	answer := removal.AllowCharged(removal.VerdictReserved, admitting)
	answer.Overridden = forced
	return answer
}

// clientReason returns the reason that a client sees for an error.
func clientReason(err error) string {
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
	// byPeer reports that another replica has made it.
	byPeer bool
}

// giveBackTimeout limits one attempt to give back. Reservations that it misses end with the admission deadline.
const giveBackTimeout = 5 * time.Second

// giveBack gives reservations back in the background, because the time of the caller is usually almost over.
func (p *Protection) giveBack(ctx context.Context, reserved []reservation, attempt quota.Removal) {
	for _, r := range reserved {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		p.background.Go(func() {
			defer cancel()
			op := historyOp{removal: attempt, claim: r.claim, giveBack: true, byPeer: r.byPeer}
			answer, err := r.protector.core.giveBack(ctx, r.protector.key, op)
			if answer.gaveBack {
				p.metrics.givenBack.WithLabelValues(r.protector.core.name).Inc()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				p.log.Error(err, "Could not give reservation back, it stays until the admission deadline", "protector", r.protector.String(), "pod", attempt.PodName)
			}
		})
	}
}
