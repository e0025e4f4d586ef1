package reserve

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// reservation is one that a request has made, or may have made, with a protector.
type reservation struct {
	protector ProtectorRef
	claim     *quota.Claim
	// byPeer reports that another replica has made it.
	byPeer bool
}

// Reserve reserves a removal with each protector in turn, with all or with none (rule 7). When one denies or is unreachable, or the caller no longer
// waits for the answer, this request gives back its own part of the reservations.
func (s *Cores) Reserve(ctx context.Context, charges []removal.Charge, attempt quota.Removal) removal.Decision {
	var reserved []reservation
	var admitting []removal.Charge
	var overridden *removal.Override // the first denial that a forced removal has overridden
	for i := range charges {
		c := &charges[i]
		if c.Vanished { // the removal is forced, or removal.CheckVanished would have denied it
			overridden = cmp.Or(overridden, &removal.Override{Verdict: removal.VerdictReason(quota.DeniedVanished), DeniedBy: c})
			continue
		}
		attempted := reservation{protector: s.Ref(*c), claim: &quota.Claim{}}
		result, err := attempted.protector.core.reserver.reserve(ctx, c.Key, historyOp{removal: c.AttemptFor(attempt), claim: attempted.claim})
		if err != nil {
			s.logFailure(ctx, err, *c, attempt)
			if attempt.Force {
				if !apierrors.IsInvalid(err) { // an invalid charge would make every later write of the protector fail, too
					s.ChargeLater(*c, attempt)
				}
				overridden = cmp.Or(overridden, &removal.Override{Verdict: removal.VerdictUnreachable, DeniedBy: c})
				continue // the removal is admitted anyway, so all reservations must stay
			}
			s.giveBack(ctx, append(reserved, perhapsMade(attempted, err)...), attempt)
			return removal.Deny(denialOf(c, err), charges...)
		}
		verdict := verdictOf(*c, result)
		attempted.byPeer = result.kind == resultByPeer
		switch {
		case result.kind == resultReleased && c.Protector.Spec.ShareOf == nil:
			continue
		case !verdict.Outcome.Admitted() && attempt.Force && verdict.Outcome != quota.DeniedShared: // rule S6: another object decides
			overridden = cmp.Or(overridden, &removal.Override{Verdict: removal.VerdictReason(verdict.Outcome), DeniedBy: c})
			continue // as above
		case !verdict.Outcome.Admitted():
			s.giveBack(ctx, reserved, attempt)
			return removal.Deny(&removal.Denial{Cause: removal.CauseProtector, By: c, Decision: verdict}, charges...)
		case !verdict.Claim.IsEmpty():
			reserved = append(reserved, attempted)
		case isUncharged(verdict):
			s.ChargeLater(*c, attempt)
		}
		if verdict.Forced != "" {
			overridden = cmp.Or(overridden, &removal.Override{Verdict: removal.VerdictReason(verdict.Forced), DeniedBy: c})
		}
		admitting = append(admitting, *c)
	}
	if err := ctx.Err(); err != nil && !attempt.Force {
		s.giveBack(ctx, reserved, attempt)
		return removal.Deny(denialOf(&charges[len(charges)-1], err), charges...)
	}
	if len(admitting) == 0 && overridden == nil {
		return removal.Admit(removal.VerdictUnprotected) // all protectors have been released since
	}
	decision := removal.Admit(removal.VerdictReserved, admitting...)
	decision.Overridden = overridden
	return decision
}

// giveBack gives reservations back in the background, because the time of the caller is usually almost over.
func (s *Cores) giveBack(ctx context.Context, reserved []reservation, attempt quota.Removal) {
	for _, r := range reserved {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviews.GiveBackTimeout)
		s.givingBack.Go(func() {
			defer cancel()
			reserver := r.protector.core.reserver
			result, err := reserver.giveBack(ctx, r.protector.key, historyOp{kind: opGiveBack, removal: attempt, claim: r.claim, byPeer: r.byPeer})
			if result.kind == resultGaveBack {
				reserver.metrics.givenBack.WithLabelValues(reserver.core).Inc()
			}
			// A core that does not answer in time would cause one message per removal.
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				s.log.Error(err, "Failed to give back reservation", "protector", r.protector.String(), "pod", attempt.PodName,
					"effect", "the reservation stays until the admission deadline")
			}
		})
	}
}

// denialOf returns the denial of a removal that could not be reserved with a protector.
func denialOf(c *removal.Charge, err error) *removal.Denial {
	if isSilent(err) {
		return &removal.Denial{Cause: removal.CauseSilent, By: c, Detail: err.Error()}
	}
	return &removal.Denial{Cause: removal.CauseUnreachable, By: c, Detail: ClientReason(err)}
}

// perhapsMade returns a reservation that failed: its batch may have been written despite the error, unless nothing was sent.
func perhapsMade(attempted reservation, err error) []reservation {
	if wasNeverSent(err) {
		return nil
	}
	return []reservation{attempted}
}

// logFailure logs why a reservation failed, other than because the core is known not to answer: the metric of the core says that.
func (s *Cores) logFailure(ctx context.Context, err error, c removal.Charge, attempt quota.Removal) {
	if ctx.Err() == nil && !isSilent(err) {
		s.log.Error(err, "Could not reserve removal", "protector", c.String(), "pod", attempt.PodName)
	}
}

// verdictOf returns the verdict of a result. A share that no longer exists denies: its protector decides now, or another share (rule S6).
func verdictOf(c removal.Charge, result opResult) quota.Verdict {
	if result.kind == resultReleased && c.Protector.Spec.ShareOf != nil {
		return quota.Verdict{Outcome: quota.DeniedShared}
	}
	return result.verdict
}

// ClientReason returns the reason that a client sees for an error.
func ClientReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no answer in time"
	}
	if apierrors.IsUnauthorized(err) {
		return errRejected.Error()
	}
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err // the address of the request belongs only in the log
	}
	// The stack of a batch that panicked belongs only in the log.
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return reason
}
