package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Brake holds back large decreases of floors (rule 13).
type Brake interface {
	// Decide decides whether a large decrease may take effect now. If it may not, Ask records that in the protector's conditions.
	Decide(ctx context.Context, request brake.Request) (brake.Answer, error)
	// Withdraw removes the record: the decrease is no longer wanted.
	Withdraw(ctx context.Context, p *v1alpha1.PodProtector) error
	// DescribeDecrease returns how a change of a spec weakens a protector, and whether that is a large decrease.
	DescribeDecrease(before, after *v1alpha1.PodProtector) (effect string, large bool)
	// FloorReference returns the AnnotationFloorReference that the protector should then have; empty means none.
	FloorReference(before, after *v1alpha1.PodProtector) string
}

// retries enqueues sources again that have pending decreases, or that the generator has changed.
type retries struct {
	queue workqueue.TypedRateLimitingInterface[policy.Ref]
}

// source connects the retries to the controller's queue.
func (r *retries) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		r.queue = queue
		return nil
	})
}

func (r *retries) retryAfter(ref policy.Ref, delay time.Duration) {
	if r != nil && r.queue != nil && delay > 0 {
		r.queue.AddAfter(ref, delay)
	}
}

// decideDecrease asks the brake about a large decrease, and retries when it may be granted.
func (r *Reconciler) decideDecrease(ctx context.Context, ref policy.Ref, request brake.Request) (brake.Verdict, error) {
	answer, err := r.Brake.Decide(ctx, request)
	if err != nil {
		return "", fmt.Errorf("decide on a large decrease: %w", err)
	}
	r.retries.retryAfter(ref, answer.Retry)
	return answer.Verdict, nil
}

// releaseCause is why protectors of a source are to be released.
type releaseCause struct {
	// text is a clause: "Deployment web was deleted".
	text string
	// cascade is why the deletion is known to be a cascade; empty if that is not known.
	cascade string
	// heldCondition is the condition TargetResolved of protectors whose release is held; nil leaves it unchanged.
	heldCondition *clusters.Announcement
}

func deletedCause(ref policy.Ref) releaseCause {
	condition := targetResolvedCondition(metav1.ConditionFalse, v1alpha1.ReasonSourceDeleted, fmt.Sprintf(
		"%s was deleted. This PodProtector stays in force while its release is pending: see the condition %s.",
		ref, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
	return releaseCause{text: ref.String() + " was deleted", heldCondition: &condition}
}

// optedOutCause returns the cause if the source exists. If its policy is the reason, the condition records that the policy was deleted.
func optedOutCause(ref policy.Ref, choice policy.Choice) releaseCause {
	cause := releaseCause{text: fmt.Sprintf("%s is not to be protected (%s)", ref, choice.Message)}
	if choice.Reason != "" {
		condition := targetResolvedCondition(metav1.ConditionFalse, choice.Reason, fmt.Sprintf(
			"%s. This PodProtector stays in force while its release is pending: see the condition %s.",
			choice.Message, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
		cause.heldCondition = &condition
	}
	return cause
}

// decideRelease asks whether a protector may be released. source is nil if it does not exist.
func (r *Reconciler) decideRelease(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	effect, large := brake.DescribeRelease(protector)
	switch {
	case !large:
		return brake.Granted, nil
	case r.Brake == nil && cause.cascade != "":
		return brake.Held, nil
	case r.Brake == nil:
		return brake.Granted, nil
	}
	request := brake.Request{Protector: protector, Cause: cause.text, Effect: effect, Cascade: cause.cascade}
	if source != nil {
		request.Source = source
		if source.GetDeletionTimestamp() != nil {
			request.Deleted = source
		}
	}
	return r.decideDecrease(ctx, ref, request)
}

// releaseProtectors releases those of the protectors that may be released now, and returns the strictest verdict on the others.
func (r *Reconciler) releaseProtectors(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	strictest := brake.Granted
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		verdict, err := r.decideRelease(ctx, ref, source, protector, cause)
		if err != nil {
			return "", err
		}
		switch verdict {
		case brake.Quiet:
			strictest = brake.Quiet // the source must stay until the verdict is known
			continue
		case brake.Held:
			if strictest == brake.Granted {
				strictest = brake.Held
			}
			if cause.heldCondition != nil {
				if err := r.announceCondition(ctx, protector, *cause.heldCondition); err != nil {
					return "", err
				}
			}
			continue
		}
		if err := r.releaseProtector(ctx, protector); apierrors.IsNotFound(err) {
			return "", errProtectorVanished
		} else if err != nil {
			return "", err
		}
		r.retries.retryAfter(ref, clusters.RecheckInterval)
	}
	return strictest, nil
}

// errProtectorVanished means that a protector no longer exists: it may have vanished.
var errProtectorVanished = errors.New("the PodProtector does not exist")

// errOutdated means that the API server has a newer state than the cache, so that an event will follow.
var errOutdated = errors.New("the cache is outdated")

// limitDecrease returns the part of the wanted protector that may be applied now; all of it, unless that is a large decrease. It also returns
// the protector that it decided on, which it read from the API server: to a cache that lags, a large decrease may look like a small one.
func (r *Reconciler) limitDecrease(
	ctx context.Context, ref policy.Ref, source client.Object, cached *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (*v1alpha1.PodProtector, policy.Protector, error) {
	if _, isPending := brake.PendingOf(cached); !isPending && !differs(cached, wanted) {
		return cached, wanted, nil
	}
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{})
	if err != nil {
		return cached, wanted, fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if live == nil || live.UID != cached.UID {
		return cached, wanted, errOutdated
	}
	wanted, err = r.limitLiveDecrease(ctx, ref, source, live, wanted, choice)
	return live, wanted, err
}

// limitLiveDecrease is limitDecrease for a protector that was read from the API server.
func (r *Reconciler) limitLiveDecrease(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (policy.Protector, error) {
	after := protectorAfterApply(protector, wanted)
	effect, large := r.Brake.DescribeDecrease(protector, after)
	if large {
		if err := r.checkSource(ctx, ref, source, wanted, choice); err != nil {
			return wanted, err
		}
		verdict, err := r.decideDecrease(ctx, ref, brake.Request{
			Protector: protector, Source: source, Effect: effect, Cause: fmt.Sprintf("%s, or its policy, changed", ref),
		})
		if err != nil {
			return wanted, err
		}
		if verdict != brake.Granted {
			return withCurrentProtection(protector, wanted), nil
		}
	}
	// An expired reference is set to the empty value. That also overrides a value of the keeper: a field manager can only give up its own
	// fields.
	if reference := r.Brake.FloorReference(protector, after); reference != protector.Annotations[v1alpha1.AnnotationFloorReference] || reference != "" {
		wanted.Object = wanted.Object.DeepCopy()
		wanted.Object.Annotations[v1alpha1.AnnotationFloorReference] = reference
	}
	if differs(protector, wanted) {
		return wanted, nil
	}
	return wanted, r.withdrawUnwantedDecrease(ctx, ref, source, protector, wanted, choice)
}

// withdrawUnwantedDecrease removes the record of a decrease once the live protector is as the source wants it: earlier, the decrease would be
// recorded again. It reads the source after the protector. A cache that lags may show an earlier state of a source that was deleted since,
// and another leader may have recorded the reason.
func (r *Reconciler) withdrawUnwantedDecrease(
	ctx context.Context, ref policy.Ref, source client.Object, live *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) error {
	if _, isPending := brake.PendingOf(live); !isPending {
		return nil
	}
	if err := r.checkSource(ctx, ref, source, wanted, choice); err != nil {
		return err
	}
	return r.withdrawDecrease(ctx, ref, live)
}

// withdrawDecrease removes the record of a protector that was read from the API server. In a storm, webhooks change the status many times a
// second. It retries after a conflict with such a change, because the watch of the generator ignores the change and no event follows.
func (r *Reconciler) withdrawDecrease(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	err := r.Brake.Withdraw(ctx, live)
	if apierrors.IsConflict(err) {
		r.retries.retryAfter(ref, time.Second)
		return errOutdated
	}
	return err
}

// checkSource returns errOutdated if the source of a large decrease is no longer as the cache shows it. The desired state of sources that
// are not of built-in kinds was read from the API server just before.
func (r *Reconciler) checkSource(ctx context.Context, ref policy.Ref, source client.Object, wanted policy.Protector, choice policy.Choice) error {
	current, err := r.Kinds.getLive(ctx, ref)
	if err != nil {
		return fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if current == nil || current.GetUID() != source.GetUID() || current.GetDeletionTimestamp() != nil {
		return errOutdated
	}
	kind, isBuiltIn := r.Kinds.builtInKind(ref.GroupKind())
	if !isBuiltIn {
		return nil
	}
	now, err := policy.Protectors(policy.Source{Kind: kind, Object: current}, r.Kinds.interpreterFor(ref, choice.Origin), choice.Origin)
	if err != nil || len(now) != 1 || !equality.Semantic.DeepEqual(now[0].Object.Spec, wanted.Object.Spec) {
		return errOutdated
	}
	return nil
}

// protectorAfterApply returns a protector as it will be when the generator has applied wanted.
func protectorAfterApply(protector *v1alpha1.PodProtector, wanted policy.Protector) *v1alpha1.PodProtector {
	after := protector.DeepCopy()
	to, want := &after.Spec, &wanted.Object.Spec
	to.MinAvailable, to.MaxUnavailable, to.Selector, to.MinReadySeconds = want.MinAvailable, want.MaxUnavailable, want.Selector, want.MinReadySeconds
	if want.Criterion != "" {
		to.Criterion = want.Criterion
	}
	if want.ExemptPodSelector != nil {
		to.ExemptPodSelector = want.ExemptPodSelector
	}
	if len(want.Operations) > 0 {
		// Operations that a user added stay. A record that cannot be parsed has no operations to remove.
		origin, _ := policy.OriginOf(protector)
		to.Operations = slices.DeleteFunc(slices.Clone(to.Operations), func(o v1alpha1.Operation) bool {
			return slices.Contains(origin.Operations, o) && !slices.Contains(want.Operations, o)
		})
		for _, o := range want.Operations {
			if !slices.Contains(to.Operations, o) {
				to.Operations = append(to.Operations, o)
			}
		}
	}
	return after
}

// withCurrentProtection returns wanted with the present protection of the protector: drift of the other fields is still corrected.
func withCurrentProtection(protector *v1alpha1.PodProtector, wanted policy.Protector) policy.Protector {
	wanted.Object = wanted.Object.DeepCopy()
	to, have := &wanted.Object.Spec, &protector.Spec
	to.MinAvailable, to.MaxUnavailable, to.Selector = have.MinAvailable, have.MaxUnavailable, have.Selector
	to.MinReadySeconds, to.ExemptPodSelector = have.MinReadySeconds, have.ExemptPodSelector
	if to.Criterion != "" {
		to.Criterion = have.Criterion
	}
	if len(to.Operations) > 0 {
		to.Operations = have.Operations
	}
	for _, key := range []string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationPolicyRule, v1alpha1.AnnotationFloorReference} {
		if value, ok := protector.Annotations[key]; ok {
			wanted.Object.Annotations[key] = value
		} else {
			delete(wanted.Object.Annotations, key)
		}
	}
	return wanted
}

// isSourceDeleted reports whether a protector stays although its source was deleted, because the brake holds its release.
func isSourceDeleted(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSourceDeleted
}

// releaseHeld releases a protector whose source no longer exists and whose release was held, once the brake grants it.
func (r *Reconciler) releaseHeld(ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector) (outcome, error) {
	if current, err := r.Kinds.getLive(ctx, ref); err != nil {
		return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	} else if current != nil {
		return outdated, nil
	}
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil || live == nil || live.UID != protector.UID {
		return outdated, err
	}
	// A restored core may have lost the record, and with it whether a cascade deleted the source.
	if !isSourceDeleted(live) {
		return outdated, nil
	}
	if released, err := r.releaseUnrecreatable(ctx, ref, nil, deletedCause(ref)); err != nil || !released {
		return decreaseHeld, err
	}
	verdict, err := r.releaseProtectors(ctx, ref, nil, []*v1alpha1.PodProtector{live}, deletedCause(ref))
	switch {
	case errors.Is(err, errProtectorVanished):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Granted:
		return released, nil
	default:
		return decreaseHeld, nil
	}
}
