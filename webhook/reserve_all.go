package webhook

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// chargeReserver reserves one removal with all its protectors, or with none (rule 7).
type chargeReserver struct {
	cores    coreSet
	returner *returner
	log      logr.Logger
}

// reserveAll reserves with each protector in turn. When one refuses or is unreachable, or the caller no longer waits
// for the answer, this request gives back its own part of the reservations (rule 7).
func (s *chargeReserver) reserveAll(ctx context.Context, charges []removal.Charge, attempt quota.Removal, r removal.Request) removal.Answer {
	var admitting []removal.Charge
	var reserved []reservation
	var forced *removal.Override
	for _, c := range charges {
		if c.Vanished { // the removal is forced, or DenyVanished would have refused it
			forced = &removal.Override{Verdict: removal.VerdictReason(quota.DeniedVanished), DeniedBy: &c}
			continue
		}
		attempted := reservation{protector: s.cores.ref(c), claim: &quota.Claim{}}
		result, err := attempted.protector.core.reserver.reserve(ctx, c.Key, historyOp{removal: c.AttemptFor(attempt), claim: attempted.claim})
		if err != nil {
			s.logFailure(ctx, err, c, attempt)
			if attempt.Force {
				if !apierrors.IsInvalid(err) { // an invalid charge would make every later write of the protector fail, too
					s.cores.chargeLater(c, attempt)
				}
				forced = &removal.Override{Verdict: removal.VerdictUnreachable, DeniedBy: &c}
				continue // the removal is admitted anyway, so all reservations must stay
			}
			s.returner.giveBack(ctx, append(reserved, perhapsMade(attempted, err)...), attempt)
			return denyUnreserved(charges, c, r, err)
		}
		verdict := verdictOf(c, result)
		attempted.byPeer = result.kind == resultByPeer
		switch {
		case result.kind == resultReleased && c.Protector.Spec.ShareOf == nil:
			continue
		case !verdict.Outcome.Admitted() && attempt.Force && verdict.Outcome != quota.DeniedShared: // rule S6: another object decides
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Outcome), DeniedBy: &c}
			continue // as above
		case !verdict.Outcome.Admitted():
			s.returner.giveBack(ctx, reserved, attempt)
			return removal.Deny(charges, c, verdict, r)
		case !verdict.Claim.IsEmpty():
			reserved = append(reserved, attempted)
		case isUncharged(verdict):
			s.cores.chargeLater(c, attempt)
		}
		if verdict.Forced != "" && forced == nil {
			forced = &removal.Override{Verdict: removal.VerdictReason(verdict.Forced), DeniedBy: &c}
		}
		admitting = append(admitting, c)
	}
	if err := ctx.Err(); err != nil && !attempt.Force {
		s.returner.giveBack(ctx, reserved, attempt)
		return denyUnreserved(charges, charges[len(charges)-1], r, err)
	}
	if len(admitting) == 0 && forced == nil {
		return removal.AllowUncharged(removal.VerdictUnprotected) // all protectors have been released since
	}
	answer := removal.AllowCharged(removal.VerdictReserved, admitting)
	answer.Overridden = forced
	return answer
}

// checkCores returns the refusal that reserveAll would return for a core that is known not to answer, or not to accept the credentials, before any request
// is sent.
func (s *chargeReserver) checkCores(charges []removal.Charge, r removal.Request) *removal.Answer {
	for _, c := range charges {
		if err := s.cores.named(c.Core).reserver.probe.knownErr(); err != nil && !c.Vanished {
			refusal := denyUnreserved(charges, c, r, err)
			return &refusal
		}
	}
	return nil
}

func denyUnreserved(charges []removal.Charge, c removal.Charge, r removal.Request, err error) removal.Answer {
	if isSilent(err) {
		return removal.DenySilent(charges, c, r, err.Error())
	}
	return removal.DenyUnreachable(charges, c, r, clientReason(err))
}

// perhapsMade returns a reservation that failed: its batch may have been written despite the error, unless nothing was sent.
func perhapsMade(attempted reservation, err error) []reservation {
	if wasNeverSent(err) {
		return nil
	}
	return []reservation{attempted}
}

// logFailure logs why a reservation failed, other than because the core is known not to answer: the metric of the core says that.
func (s *chargeReserver) logFailure(ctx context.Context, err error, c removal.Charge, attempt quota.Removal) {
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

// clientReason returns the reason that a client sees for an error.
func clientReason(err error) string {
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
