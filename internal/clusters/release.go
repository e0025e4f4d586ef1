package clusters

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// WasLost reports whether a protector whose deletion a watch has shown was lost rather than released. last is its last state.
// The API server does not delete an object that has a finalizer. The deleted object that it shows is the state before the last finalizer
// was removed. Only a requested deletion (the deletionTimestamp) therefore distinguishes a release from a loss.
func WasLost(last *v1alpha1.PodProtector) bool {
	return last != nil && last.DeletionTimestamp == nil && IsHeld(last)
}

// MayBeLost reports whether a protector may have been lost that no longer exists, although no watch has shown its deletion. last is the last state that was
// observed. Meanwhile the core may have been restored to a state before a deletion that last shows, so only the watch, or if it was interrupted the record
// of the release (WasReleased), tells.
func MayBeLost(last *v1alpha1.PodProtector) bool { return last != nil && IsHeld(last) }

// IsHeld reports whether a protector has a finalizer of Breakwater.
func IsHeld(p *v1alpha1.PodProtector) bool {
	return slices.Contains(p.Finalizers, v1alpha1.FinalizerHold) || slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector)
}

// releaseReason is the reason of the events that record releases.
const releaseReason = "Released"

// RecordRelease records that a protector is about to be released, by an event that every component can read. A component that was not
// watching when the protector was deleted sees only that it does not exist, and would treat it as vanished. The release of a protector that
// was recreated also releases the one that it replaced. API servers keep events for an hour.
//
// A namespace that is being deleted accepts no new objects, and takes its events along. Another event is about the namespace, and is stored in the namespace
// for events of cluster-scoped objects.
func RecordRelease(ctx context.Context, writer client.Writer, p *v1alpha1.PodProtector, by string) error {
	for _, uid := range []types.UID{p.UID, types.UID(p.Annotations[v1alpha1.AnnotationRestored])} {
		if uid == "" {
			continue
		}
		event := releaseEvent(p, uid, by)
		if err := writer.Create(ctx, onNamespace(event)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("record the release: %w", err)
		}
		err := writer.Create(ctx, event)
		isEnding := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err)
		if err != nil && !isEnding && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("record the release: %w", err)
		}
	}
	return nil
}

func releaseEvent(p *v1alpha1.PodProtector, uid types.UID, by string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: releaseEventName(uid)},
		EventTime:  metav1.NowMicro(), ReportingController: by, ReportingInstance: by,
		Type: corev1.EventTypeNormal, Action: "Release", Reason: releaseReason,
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector", Namespace: p.Namespace, Name: p.Name, UID: uid,
		},
		Note: "Its deletion was requested; it no longer protects pods.",
	}
}

// onNamespace returns the event in metav1.NamespaceDefault: an API server stores an event only in the namespace of its object.
func onNamespace(event *eventsv1.Event) *eventsv1.Event {
	copied := event.DeepCopy()
	copied.ResourceVersion, copied.Namespace = "", metav1.NamespaceDefault
	copied.Regarding = corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: event.Namespace}
	copied.Note = fmt.Sprintf("PodProtector %s was released; it no longer protects pods.", event.Regarding.Name)
	return copied
}

// WasReleased reports whether the release of this very protector was recorded. live must read from the API server.
func WasReleased(ctx context.Context, live client.Reader, p *v1alpha1.PodProtector) (bool, error) {
	for _, namespace := range []string{p.Namespace, metav1.NamespaceDefault} {
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: releaseEventName(p.UID)}, &eventsv1.Event{})
		if !apierrors.IsNotFound(err) {
			return err == nil, err
		}
	}
	return false, nil
}

func releaseEventName(uid types.UID) string { return "released-" + string(uid) }
