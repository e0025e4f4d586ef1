package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// decider decides the removal of a pod with all protectors that cover it.
type decider struct {
	cores coreSet
	// nodes return the domains that pods are in.
	nodes *nodeLabelCache
	// verifier compares the pods of unauthenticated callers with those of the cells.
	verifier *verifier
	reserver *chargeReserver
	now      func() time.Time
}

// reserveOrRefuse reserves the removal of a pod with all its protectors, or returns the refusal. It looks at all budgets
// before it reserves (rule 7), with the same steps as removal.DecideDryRun.
func (d *decider) reserveOrRefuse(ctx context.Context, cell string, r removal.Request) removal.Answer {
	answer := d.reserveOnce(ctx, cell, r)
	if isBetweenObjects(answer) { // the webhook now knows which object decides
		answer = d.reserveOnce(ctx, cell, r)
	}
	if (isBetweenObjects(answer) || answer.Verdict == removal.VerdictUnknown) && r.IsBreakGlass() && !r.DryRun {
		d.chargeLater(ctx, cell, r)
	}
	return answer
}

// isBetweenObjects reports whether a removal was denied because the cell is entering or leaving, so that another object decides (rule S6).
func isBetweenObjects(answer removal.Answer) bool {
	return answer.Verdict == removal.VerdictReason(quota.DeniedShared)
}

// chargeLater makes pending charges of a break-glass removal, which is admitted although no object decides yet. If the share of a protector cannot be
// read, the charge waits with the protector until it is known which of the two decides.
func (d *decider) chargeLater(ctx context.Context, cell string, r removal.Request) {
	objects, belongs, err := d.objects(ctx, cell, r)
	if err != nil {
		return // a core that cannot be read: the protector sees the removal in a later snapshot
	}
	covering, err := removal.WithShares(objects, cell)
	if err != nil {
		covering = slices.DeleteFunc(objects, func(c removal.Charge) bool { return c.Protector.Spec.ShareOf != nil })
	}
	charges, _ := removal.ChargesFor(covering, belongs, cell, r, d.now())
	d.nodes.resolveDomains(ctx, cell, r, charges)
	attempt := r.Attempt(cell, d.now(), newToken())
	for _, c := range charges {
		d.cores.chargeLater(c, attempt)
	}
}

func (d *decider) reserveOnce(ctx context.Context, cell string, r removal.Request) removal.Answer {
	covering, belongs, err := d.covering(ctx, cell, r)
	if err != nil {
		return removal.DenyUnknown(r, err) // rule 9
	}
	if err := d.refreshForMinReady(ctx, cell, r, covering); err != nil {
		return removal.DenyUnknown(r, err) // rule 9
	}
	charges, verdict := removal.ChargesFor(covering, belongs, cell, r, d.now()) // rules 3 and 14
	if len(charges) == 0 {
		return removal.AllowUncharged(verdict)
	}
	attempt := r.Attempt(cell, d.now(), newToken())
	if len(charges) > 1 {
		attempt.RevocableUntil = attempt.At.Add(reviews.GiveBackTimeout)
	}
	if refusal := removal.DenyVanished(charges, r); refusal != nil {
		return *refusal // rule 10
	}
	d.nodes.resolveDomains(ctx, cell, r, charges) // rule 12
	if refusal := removal.Preview(charges, attempt, r); refusal != nil {
		return *refusal // rule 7
	}
	if refusal := d.reserver.checkCores(charges, r); refusal != nil && !attempt.Force {
		return *refusal
	}
	if r.DryRun {
		return removal.AllowCharged(removal.VerdictDryRun, charges) // rule 8
	}
	if ctx.Err() != nil && !attempt.Force {
		return removal.DenyUnreachable(charges, charges[0], r, "the review arrived too late") // the API server gives up, or is about to
	}
	if refusal := d.verifier.verify(ctx, cell, r, charges); refusal != nil {
		return *refusal // rule 15
	}
	return d.reserver.reserveAll(ctx, charges, attempt, r)
}

// mayCover reports whether a protector covers a pod of a cell, as far as the webhook knows.
func (d *decider) mayCover(cell string, r removal.Request) bool {
	return slices.ContainsFunc(d.cores, func(c *core) bool {
		return !c.synced.Load() || c.hasPod(cell, r.Namespace, r.Pod.Labels) && len(c.states.coverage.covering(cell, r.Namespace, r.Pod.Labels)) > 0
	})
}

// newToken returns a random token for an attempt. The probability that two of a million attempts for one pod share a
// token is 3e-8.
func newToken() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // it must differ, not be secret

// covering returns the protectors that cover a pod, each replaced by its share if that decides, in their newest known state. belongs reports whether
// the pod belongs to the cell in any core cluster.
func (d *decider) covering(ctx context.Context, cell string, r removal.Request) (covering []removal.Charge, belongs bool, err error) {
	objects, belongs, err := d.objects(ctx, cell, r)
	if err != nil {
		return nil, false, err
	}
	d.cores.routePendingCharges(r.Namespace)
	covering, err = removal.WithShares(objects, cell) // rule S6
	return covering, belongs, err
}

// objects returns all protectors and shares that cover a pod.
func (d *decider) objects(ctx context.Context, cell string, r removal.Request) (covering []removal.Charge, belongs bool, err error) {
	for _, core := range d.cores {
		if !core.synced.Load() {
			return nil, false, fmt.Errorf("the PodProtectors of core cluster %q have not been read yet", core.name)
		}
		if !core.hasPod(cell, r.Namespace, r.Pod.Labels) {
			continue // the API server asks about another cell of the same cluster, too
		}
		belongs = true
		leavesCell := r.Relabeled != nil && !core.hasPod(cell, r.Namespace, r.Relabeled.Labels)
		for _, key := range core.states.coverage.covering(cell, r.Namespace, r.Pod.Labels) {
			protector, lost, err := core.states.newest(ctx, key)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, false, fmt.Errorf("PodProtector %s of core cluster %q: %w", key, core.name, err)
			}
			covering = append(covering, removal.Charge{Core: core.name, Key: key, Protector: protector, Vanished: lost, LeavesCell: leavesCell})
		}
	}
	return covering, belongs, nil
}
