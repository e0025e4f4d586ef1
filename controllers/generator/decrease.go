package generator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Brake holds back large decreases of floors (rule 13).
type Brake interface {
	// Decide decides whether a large decrease may take effect now. If it may not, Decide records that in the protector's conditions.
	Decide(ctx context.Context, request brake.Request) (brake.Answer, error)
	// Withdraw removes the record: the decrease is no longer wanted.
	Withdraw(ctx context.Context, p *v1alpha1.PodProtector) error
	// DescribeDecrease returns how a change of a spec weakens a protector.
	DescribeDecrease(before, after *v1alpha1.PodProtector) brake.Weakening
	// FloorReference returns the AnnotationFloorReference that the protector should then have; empty means none.
	FloorReference(before, after *v1alpha1.PodProtector) string
}

// decreaseLimiter limits protectors to the decreases that the brake grants (rule 13). It requests a large decrease only if the API server
// confirms it.
type decreaseLimiter struct {
	// brake decides; nil grants all decreases at once.
	brake   Brake
	live    client.Reader
	applier *applier
	kinds   *Kinds
	// policies chooses the policy again.
	policies *policyChooser
	source   *sourceEvents
	retries  *retries
}

// decide asks the brake about a large decrease, and retries when it may be granted.
func (l *decreaseLimiter) decide(ctx context.Context, ref policy.Ref, request brake.Request) (brake.Verdict, error) {
	answer, err := l.brake.Decide(ctx, request)
	if err != nil {
		return "", fmt.Errorf("decide on a large decrease: %w", err)
	}
	if answer.Verdict == brake.Held {
		l.source.emitHeld(request)
	}
	l.retries.retryAfter(ref, answer.Retry)
	return answer.Verdict, nil
}

// decideRelease asks whether a protector may be released (rule 13). source is nil if it does not exist.
func (l *decreaseLimiter) decideRelease(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	effect, large := brake.DescribeRelease(protector)
	switch {
	case !large:
		return brake.Granted, nil
	case l.brake == nil && cause.cascade != "":
		return brake.Held, nil
	case l.brake == nil:
		return brake.Granted, nil
	}
	request := brake.Request{Protector: protector, Cause: cause.text, Effect: effect, Cascade: cause.cascade, Deleted: cause.policy}
	if source != nil {
		request.Source = source
		if source.GetDeletionTimestamp() != nil {
			request.Deleted = source
		}
	}
	return l.decide(ctx, ref, request)
}

// errOutdated means that the API server has a newer state than the cache, so that an event will follow.
var errOutdated = errors.New("the cache is outdated")

// limit returns the part of the wanted protector that may be applied now; all of it, unless that is a large decrease. It also returns
// the protector that it decided on, which it read from the API server: to a cache that lags, a large decrease may look like a small one.
// What it returns may be applied to that version of the protector only.
func (l *decreaseLimiter) limit(
	ctx context.Context, ref policy.Ref, source client.Object, cached *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (*v1alpha1.PodProtector, policy.Protector, error) {
	if _, isPending := brake.PendingOf(cached); (l.brake == nil || !isPending) && !differs(cached, wanted) {
		return cached, wanted, nil
	}
	live, err := get(ctx, l.live, client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{})
	if err != nil {
		return cached, wanted, fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if live == nil || live.UID != cached.UID {
		return cached, wanted, errOutdated
	}
	wanted = withRestoreMark(live, wanted)
	if l.brake != nil {
		wanted, err = l.limitLive(ctx, ref, source, live, wanted, choice)
	}
	return live, wanted, err
}

// limitLive is limit (rule 13) for a protector that was read from the API server.
func (l *decreaseLimiter) limitLive(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (policy.Protector, error) {
	after, err := l.applier.predict(ctx, protector, wanted)
	if err != nil {
		return wanted, err
	}
	isHeld, weakening := false, l.brake.DescribeDecrease(protector, after)
	if weakening.IsLarge() {
		current, err := l.checkSource(ctx, ref, source, wanted, choice)
		if err != nil {
			return wanted, err
		}
		if err := l.checkPolicy(ctx, ref, current, protector, choice); err != nil {
			return wanted, err
		}
		verdict, err := l.decide(ctx, ref, brake.Request{
			Protector: protector, Source: current, Deleted: choice.Deleted, Effect: weakening.Effect, Cause: fmt.Sprintf("%s, or its policy, changed", ref),
		})
		if err != nil {
			return wanted, err
		}
		if isHeld = verdict != brake.Granted; isHeld {
			wanted = withCurrentProtection(protector, wanted, weakening)
			weakening.Keep(&after.Spec, &protector.Spec)
		}
	}
	if isHeld && hasSameFloor(protector, after) {
		return wanted, nil
	}
	// An expired reference is set to the empty value. That also overrides a value of the keeper: a field manager can only give up its own
	// fields.
	if reference := l.brake.FloorReference(protector, after); reference != protector.Annotations[v1alpha1.AnnotationFloorReference] || reference != "" {
		wanted.Object = wanted.Object.DeepCopy()
		wanted.Object.Annotations[v1alpha1.AnnotationFloorReference] = reference
	}
	if isHeld || differs(protector, wanted) {
		return wanted, nil
	}
	return wanted, l.withdrawUnwanted(ctx, ref, source, protector, wanted, choice)
}

// withdrawUnwanted removes the record of a decrease once the live protector is as the source wants it: earlier, the decrease would be
// recorded again. It reads the source after the protector. A cache that lags may show an earlier state of a source that was deleted since,
// and another leader may have recorded the reason.
func (l *decreaseLimiter) withdrawUnwanted(
	ctx context.Context, ref policy.Ref, source client.Object, live *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) error {
	if _, isPending := brake.PendingOf(live); !isPending {
		return nil
	}
	if _, err := l.checkSource(ctx, ref, source, wanted, choice); err != nil {
		return err
	}
	return l.withdraw(ctx, ref, live)
}

// withdraw removes the record of a protector that was read from the API server. In a storm, webhooks change the status many times a
// second. It retries after a conflict with such a change, because the watch of the generator ignores the change and no event follows.
func (l *decreaseLimiter) withdraw(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	err := l.brake.Withdraw(ctx, live)
	if apierrors.IsConflict(err) {
		l.retries.retryAfter(ref, time.Second)
		return errOutdated
	}
	return err
}

// checkSource returns the source of a large decrease from the API server, or errOutdated if it is no longer as the cache shows it: that is no evidence
// of intent (rule 13). The desired state of sources that are not of built-in kinds was read from the API server just before.
func (l *decreaseLimiter) checkSource(
	ctx context.Context, ref policy.Ref, source client.Object, wanted policy.Protector, choice policy.Choice,
) (client.Object, error) {
	current, err := l.kinds.getUnchanged(ctx, ref, source)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return nil, errOutdated
	}
	kind, isBuiltIn := builtInKind(ref.GroupKind())
	if !isBuiltIn {
		return current, nil
	}
	now, err := policy.Protectors(policy.Source{Kind: kind, Object: current}, interpreterFor(ref, choice.Origin), choice.Origin)
	if err != nil || len(now) != 1 || !equality.Semantic.DeepEqual(now[0].Object.Spec, wanted.Object.Spec) {
		return nil, errOutdated
	}
	return current, nil
}

// checkPolicy returns errOutdated if the policies, or that of the protector, are no longer as the cache shows them: a rule that a user has changed since
// is no evidence of intent (rule 13), and the deletion of another policy than the choice was made for may be part of a cascade. The source and the
// protector were read from the API server.
func (l *decreaseLimiter) checkPolicy(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, choice policy.Choice,
) error {
	last := lastOrigin([]*v1alpha1.PodProtector{protector})
	if choice.Origin.Policy == "" && (last == nil || last.Policy == "") {
		return nil
	}
	current, err := l.policies.chooseLive(ctx, ref, source, last)
	if err != nil {
		return err
	}
	if current.Verdict != choice.Verdict || !equality.Semantic.DeepEqual(current.Origin, choice.Origin) || (current.Deleted == nil) != (choice.Deleted == nil) {
		return errOutdated
	}
	return nil
}

// withdrawVanished removes the record of a decrease that a vanished source wanted. No component requests it any more, and it would stay among the
// oldest pending decreases, for which others wait. The source is read after the protector: another leader may have recorded the decrease of
// a source that was created again and deleted since.
func (l *decreaseLimiter) withdrawVanished(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	if _, isPending := brake.PendingOf(live); !isPending || l.brake == nil {
		return nil
	}
	source, err := l.kinds.getLive(ctx, ref)
	if err != nil {
		return fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if source != nil {
		return errOutdated
	}
	return l.withdraw(ctx, ref, live)
}
