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
	// Ask decides whether a large decrease may take effect now. If it may not, Ask records that in the protector's conditions.
	Ask(ctx context.Context, request brake.Request) (brake.Answer, error)
	// Withdraw removes the record: the decrease is no longer wanted.
	Withdraw(ctx context.Context, p *v1alpha1.PodProtector) error
	// Weakened returns how a change of a spec weakens a protector, and whether that is a large decrease.
	Weakened(before, after *v1alpha1.PodProtector) (effect string, large bool)
	// Reference returns the AnnotationFloorReference that the protector should then have; empty means none.
	Reference(before, after *v1alpha1.PodProtector) string
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

func (r *retries) after(ref policy.Ref, delay time.Duration) {
	if r != nil && r.queue != nil && delay > 0 {
		r.queue.AddAfter(ref, delay)
	}
}

// ask asks the brake about a large decrease, and retries when it may be granted.
func (r *Reconciler) ask(ctx context.Context, ref policy.Ref, request brake.Request) (brake.Verdict, error) {
	answer, err := r.Brake.Ask(ctx, request)
	if err != nil {
		return "", fmt.Errorf("decide on a large decrease: %w", err)
	}
	r.retries.after(ref, answer.Retry)
	return answer.Verdict, nil
}

// releaseCause is why protectors of a source are to be released.
type releaseCause struct {
	// text is a clause: "Deployment web was deleted".
	text string
	// cascade is why the deletion is known to be a cascade; empty if that is not known.
	cascade string
	// held is the condition TargetResolved of protectors whose release is held; nil leaves it unchanged.
	held *clusters.Announcement
}

func deleted(ref policy.Ref) releaseCause {
	held := resolution(metav1.ConditionFalse, v1alpha1.ReasonSourceDeleted, fmt.Sprintf(
		"%s was deleted. This PodProtector stays in force while its release is pending: see the condition %s.",
		ref, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
	return releaseCause{text: ref.String() + " was deleted", held: &held}
}

// optedOut returns the cause if the source exists. If its policy is the reason, the condition records that the policy was deleted.
func optedOut(ref policy.Ref, choice policy.Choice) releaseCause {
	cause := releaseCause{text: fmt.Sprintf("%s is not to be protected (%s)", ref, choice.Message)}
	if choice.Reason != "" {
		held := resolution(metav1.ConditionFalse, choice.Reason, fmt.Sprintf(
			"%s. This PodProtector stays in force while its release is pending: see the condition %s.",
			choice.Message, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
		cause.held = &held
	}
	return cause
}

// askRelease asks whether a protector may be released. source is nil if it does not exist.
func (r *Reconciler) askRelease(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	effect, large := brake.Release(protector)
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
	return r.ask(ctx, ref, request)
}

// removeAll releases those of the protectors that may be released now, and returns the strictest verdict on the others.
func (r *Reconciler) removeAll(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	worst := brake.Granted
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		verdict, err := r.askRelease(ctx, ref, source, protector, cause)
		if err != nil {
			return "", err
		}
		switch verdict {
		case brake.Quiet:
			worst = brake.Quiet // the source must stay until the verdict is known
			continue
		case brake.Held:
			if worst == brake.Granted {
				worst = brake.Held
			}
			if cause.held != nil {
				if err := r.resolve(ctx, protector, *cause.held); err != nil {
					return "", err
				}
			}
			continue
		}
		if err := r.remove(ctx, protector); apierrors.IsNotFound(err) {
			return "", errVanished
		} else if err != nil {
			return "", err
		}
		r.retries.after(ref, clusters.LookAgain)
	}
	return worst, nil
}

// errVanished means that a protector no longer exists: it may have vanished.
var errVanished = errors.New("the PodProtector does not exist")

// errOutdated means that the API server has a newer state than the cache, so that an event will follow.
var errOutdated = errors.New("the cache is outdated")

// brakeFloor returns the part of the wanted protector that may be applied now; all of it, unless that is a large decrease. It also returns
// the protector that it decided on, which it read from the API server: to a cache that lags, a large decrease may look like a small one.
func (r *Reconciler) brakeFloor(
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
	wanted, err = r.brakeLive(ctx, ref, source, live, wanted, choice)
	return live, wanted, err
}

// brakeLive is brakeFloor for a protector that was read from the API server.
func (r *Reconciler) brakeLive(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (policy.Protector, error) {
	after := applied(protector, wanted)
	effect, large := r.Brake.Weakened(protector, after)
	if large {
		if err := r.checkSource(ctx, ref, source, wanted, choice); err != nil {
			return wanted, err
		}
		verdict, err := r.ask(ctx, ref, brake.Request{
			Protector: protector, Source: source, Effect: effect, Cause: fmt.Sprintf("%s, or its policy, changed", ref),
		})
		if err != nil {
			return wanted, err
		}
		if verdict != brake.Granted {
			return held(protector, wanted), nil
		}
	}
	// An expired reference is set to the empty value. That also overrides a value of the keeper: a field manager can only give up its own
	// fields.
	if reference := r.Brake.Reference(protector, after); reference != protector.Annotations[v1alpha1.AnnotationFloorReference] || reference != "" {
		wanted.Object = wanted.Object.DeepCopy()
		wanted.Object.Annotations[v1alpha1.AnnotationFloorReference] = reference
	}
	if differs(protector, wanted) {
		return wanted, nil
	}
	return wanted, r.withdrawUnwanted(ctx, ref, source, protector, wanted, choice)
}

// withdrawUnwanted removes the record of a decrease once the live protector is as the source wants it: earlier, the decrease would be
// recorded again. It reads the source after the protector. A cache that lags may show an earlier state of a source that was deleted since,
// and another leader may have recorded the reason.
func (r *Reconciler) withdrawUnwanted(
	ctx context.Context, ref policy.Ref, source client.Object, live *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) error {
	if _, isPending := brake.PendingOf(live); !isPending {
		return nil
	}
	if err := r.checkSource(ctx, ref, source, wanted, choice); err != nil {
		return err
	}
	return r.withdrawRead(ctx, ref, live)
}

// withdrawRead removes the record of a protector that was read from the API server. In a storm, webhooks change the status many times a
// second. It retries after a conflict with such a change, because the watch of the generator ignores the change and no event follows.
func (r *Reconciler) withdrawRead(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	err := r.Brake.Withdraw(ctx, live)
	if apierrors.IsConflict(err) {
		r.retries.after(ref, time.Second)
		return errOutdated
	}
	return err
}

// checkSource returns errOutdated if the source of a large decrease is no longer as the cache shows it. The desired state of sources that
// are not of built-in kinds was read from the API server just before.
func (r *Reconciler) checkSource(ctx context.Context, ref policy.Ref, source client.Object, wanted policy.Protector, choice policy.Choice) error {
	current, err := r.Kinds.live(ctx, ref)
	if err != nil {
		return fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if current == nil || current.GetUID() != source.GetUID() || current.GetDeletionTimestamp() != nil {
		return errOutdated
	}
	kind, isBuiltIn := r.Kinds.builtIn(ref.GroupKind())
	if !isBuiltIn {
		return nil
	}
	now, err := policy.Protectors(policy.Source{Kind: kind, Object: current}, r.Kinds.interpreter(ref, choice.Origin), choice.Origin)
	if err != nil || len(now) != 1 || !equality.Semantic.DeepEqual(now[0].Object.Spec, wanted.Object.Spec) {
		return errOutdated
	}
	return nil
}

// applied returns a protector as it will be when the generator has applied wanted.
func applied(protector *v1alpha1.PodProtector, wanted policy.Protector) *v1alpha1.PodProtector {
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

// held returns wanted with the present protection of the protector: drift of the other fields is still corrected.
func held(protector *v1alpha1.PodProtector, wanted policy.Protector) policy.Protector {
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

// wasDeleted reports whether a protector stays although its source was deleted, because the brake holds its release.
func wasDeleted(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSourceDeleted
}

// releaseHeld releases a protector whose source no longer exists and whose release was held, once the brake grants it.
func (r *Reconciler) releaseHeld(ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector) (outcome, error) {
	if current, err := r.Kinds.live(ctx, ref); err != nil {
		return "", fmt.Errorf("get the %s from the apiserver: %w", ref.Kind, err)
	} else if current != nil {
		return outdated, nil
	}
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil || live == nil || live.UID != protector.UID {
		return outdated, err
	}
	// A restored core may have lost the record, and with it whether a cascade deleted the source.
	if !wasDeleted(live) {
		return outdated, nil
	}
	if released, err := r.releaseStuck(ctx, ref, nil, deleted(ref)); err != nil || !released {
		return decreaseHeld, err
	}
	verdict, err := r.removeAll(ctx, ref, nil, []*v1alpha1.PodProtector{live}, deleted(ref))
	switch {
	case errors.Is(err, errVanished):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Granted:
		return released, nil
	default:
		return decreaseHeld, nil
	}
}
