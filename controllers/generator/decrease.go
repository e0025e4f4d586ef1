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
	// Ask answers whether a large decrease may take effect now, and records it in the protector's conditions if it may not.
	Ask(ctx context.Context, request brake.Request) (brake.Answer, error)
	// Withdraw takes the record back: the decrease is not wanted any more.
	Withdraw(ctx context.Context, p *v1alpha1.PodProtector) error
	// Weakened says how a change of a spec weakens a protector, and whether that is a large decrease.
	Weakened(before, after *v1alpha1.PodProtector) (effect string, large bool)
	// Reference is the AnnotationFloorReference that the protector is to have then; empty for none.
	Reference(before, after *v1alpha1.PodProtector) string
}

// retries brings sources back, whose decreases are pending or for which something was done.
type retries struct {
	queue workqueue.TypedRateLimitingInterface[policy.Ref]
}

// source lets the retries reach the controller's queue.
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

// ask asks the brake about a large decrease, and comes back when it may be granted.
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
	// cascade says why it is known to be a cascade; empty if it is not known to be one.
	cascade string
	// held is the condition TargetResolved of protectors whose release is held; nil leaves it as it is.
	held *clusters.Announcement
}

func deleted(ref policy.Ref) releaseCause {
	held := resolution(metav1.ConditionFalse, v1alpha1.ReasonSourceDeleted, fmt.Sprintf(
		"%s was deleted. This PodProtector stays in force while its release is pending: see the condition %s.",
		ref, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
	return releaseCause{text: ref.String() + " was deleted", held: &held}
}

// optedOut is the cause if the source exists. If its policy is the reason, the condition remembers that the policy was deleted.
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

// removeAll releases those of the protectors that may be released now, and reports the strictest verdict on the others.
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

// errVanished reports that a protector is not there any more: it may have vanished.
var errVanished = errors.New("the PodProtector does not exist")

// errOutdated reports that the API server knows more than the cache, so that an event will follow.
var errOutdated = errors.New("the cache is outdated")

// brakeFloor returns what of the wanted protector may be applied now: without a large decrease, all of it; and the protector that this was
// decided on, which is the one of the API server: to a cache that lags, a large decrease may look like a small one.
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
	// One that has ended is emptied, which removes it also where the keeper wrote it: a field manager gives up only what is its own.
	if reference := r.Brake.Reference(protector, after); reference != protector.Annotations[v1alpha1.AnnotationFloorReference] || reference != "" {
		wanted.Object = wanted.Object.DeepCopy()
		wanted.Object.Annotations[v1alpha1.AnnotationFloorReference] = reference
	}
	if differs(protector, wanted) {
		return wanted, nil
	}
	return wanted, r.withdrawUnwanted(ctx, ref, source, protector, wanted, choice)
}

// withdrawUnwanted takes back the record of a decrease when the protector, as it was read from the API server, is as the source wants it:
// before, the decrease would be recorded again. The source is read after the protector. To a cache that lags, a source may be as before that
// was deleted since, and another leader may have recorded why.
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

// withdrawRead takes back the record of a protector that was read from the API server. In a storm, webhooks change the status many times a
// second. A conflict with such a change is retried, because the watch of the generator ignores it and no event follows.
func (r *Reconciler) withdrawRead(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	err := r.Brake.Withdraw(ctx, live)
	if apierrors.IsConflict(err) {
		r.retries.after(ref, time.Second)
		return errOutdated
	}
	return err
}

// checkSource is errOutdated if the source of a large decrease is not any more what the cache shows. Of sources of other kinds than
// Kubernetes' own, what they want was read from the API server just now.
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

// applied is what a protector will be when the generator has applied what it wants.
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
		// What its user added stays. A record that cannot be read has no operations to take away.
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

// held is the wanted protector with what protects as it is: drift of the rest is still repaired.
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

// releaseHeld releases the protectors of a source that does not exist any more whose release was held, when it is granted.
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
	// A core that was restored may have lost the record, and with it whether a cascade deleted the source.
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
