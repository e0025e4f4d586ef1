package generator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// targetResolvedCondition returns the condition TargetResolved of a protector.
func targetResolvedCondition(status metav1.ConditionStatus, reason, message, eventType string) clusters.Announcement {
	return clusters.Announcement{
		Condition: metav1.Condition{Type: v1alpha1.ConditionTargetResolved, Status: status, Reason: reason, Message: message},
		EventType: eventType,
	}
}

// existingSourceCondition is the resolution of a protector whose source exists.
func existingSourceCondition(ref policy.Ref, protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice) clusters.Announcement {
	switch {
	case choice.Verdict == policy.Retain:
		return retainedCondition(choice)
	case isHeldByDeletedPolicy(protector, wanted, choice):
		return targetResolvedCondition(metav1.ConditionFalse, v1alpha1.ReasonPolicyDeleted, fmt.Sprintf(
			"%s was deleted: this PodProtector stays in force by its last rule until the decrease to what %s requests is granted.",
			protector.Annotations[v1alpha1.AnnotationPolicy], ref), corev1.EventTypeWarning)
	case protector.DeletionTimestamp != nil:
		return targetResolvedCondition(metav1.ConditionTrue, v1alpha1.ReasonDeletionHeld, fmt.Sprintf(
			"This PodProtector was deleted, but %s still requires it: its finalizer keeps it in force until the %s is deleted or opts out.",
			ref, ref.Kind), corev1.EventTypeWarning)
	case wanted.Reason == v1alpha1.ReasonRecreateStrategy, wanted.Reason == v1alpha1.ReasonUnknownKey:
		return targetResolvedCondition(metav1.ConditionTrue, wanted.Reason, wanted.Message, corev1.EventTypeWarning)
	default:
		return targetResolvedCondition(metav1.ConditionTrue, wanted.Reason, wanted.Message, corev1.EventTypeNormal)
	}
}

// isHeldByDeletedPolicy reports whether a protector keeps the rule of a policy that a user deleted, because the brake holds what its source requests now.
// Only the condition records that deletion (rule 13). Without it, the policy would have vanished for the next decision, and its rule would stay for good.
func isHeldByDeletedPolicy(protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice) bool {
	last, _ := policy.OriginOf(protector) // also names a policy whose rule cannot be parsed
	return choice.Deleted != nil && last.Removed && wanted.Object.Annotations[v1alpha1.AnnotationPolicy] == last.Policy
}

// addMistakes adds the spelling mistakes of the source to what the condition says; mistakes may be "".
func addMistakes(wanted *policy.Protector, mistakes string) {
	if mistakes == "" {
		return
	}
	wanted.Message += " " + mistakes
	if wanted.Reason == v1alpha1.ReasonSourceFound {
		wanted.Reason = v1alpha1.ReasonUnknownKey
	}
}

// retainedCondition is the resolution of a protector whose policy no longer exists.
func retainedCondition(choice policy.Choice) clusters.Announcement {
	return targetResolvedCondition(metav1.ConditionFalse, choice.Reason, choice.Message, corev1.EventTypeWarning)
}

// vanishedCondition is the resolution of a protector whose source no longer exists although no client deleted it.
func vanishedCondition(ref policy.Ref) clusters.Announcement {
	return targetResolvedCondition(metav1.ConditionFalse, v1alpha1.ReasonSourceVanished, fmt.Sprintf(
		"%s no longer exists, but no client deleted it: this PodProtector stays in force. Create the %s again. "+
			"If its pods no longer need protection, annotate this PodProtector or its namespace with %s=true.",
		ref, ref.Kind, v1alpha1.AnnotationConfirmRelease), corev1.EventTypeWarning)
}

// conditionWriter writes the condition TargetResolved of protectors.
type conditionWriter struct {
	announcer clusters.Announcer
	kinds     *Kinds
}

// announce writes the condition if it differs, and emits an event.
func (w *conditionWriter) announce(ctx context.Context, protector *v1alpha1.PodProtector, want clusters.Announcement) error {
	err := w.announcer.Announce(ctx, protector, want)
	if err != nil {
		_, err = classifyWriteError(err, "resolve")
	}
	return err
}

// announceExisting writes the condition of a protector whose source exists. A leader that was paused may see a source that was deleted since, and
// another leader may have recorded that in the same condition. Nothing else records it (rule 13), so the API server must confirm the source then. The
// source is read after the protector.
func (w *conditionWriter) announceExisting(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, want clusters.Announcement,
) (outcome, error) {
	if want.IsSet(protector) {
		return protected, nil
	}
	result := outdated
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		result, err = w.announceOnce(ctx, ref, source, protector, want)
		return err
	})
	if err != nil {
		return classifyWriteError(err, "resolve")
	}
	return result, nil
}

// announceOnce is announceExisting, and returns a conflict if another client has written the protector since it was read.
func (w *conditionWriter) announceOnce(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, want clusters.Announcement,
) (outcome, error) {
	live, err := get(ctx, w.announcer.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if live == nil || live.UID != protector.UID {
		return outdated, nil
	}
	if isSourceDeleted(live) {
		if current, err := w.kinds.getUnchanged(ctx, ref, source); err != nil || current == nil {
			return outdated, err
		}
	}
	return protected, w.announcer.AnnounceOn(ctx, live, want)
}
