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

// Vanished tells of a protector that is gone, by the last state of it that was seen, whether nobody has released it. An
// apiserver takes no object away that has a finalizer. It shows one that it takes away as it was before its last finalizer
// went, so that only a deletion that was asked for tells an end from a loss.
func Vanished(last *v1alpha1.PodProtector) bool {
	return last != nil && last.DeletionTimestamp == nil && (slices.Contains(last.Finalizers, v1alpha1.FinalizerHold) ||
		slices.Contains(last.Finalizers, v1alpha1.FinalizerProtector))
}

// releaseReason is that of the events that tell of releases.
const releaseReason = "Released"

// NoteRelease records that a protector is about to be released, by an event that every component can read. A component that did not watch
// when the protector went sees only that it does not exist, and would take it for one that vanished. The release of a protector that was
// recreated is also that of the one before. API servers keep events for an hour.
//
// A namespace that is being deleted takes no new objects. The event is then about the namespace, and is stored where events of objects
// without a namespace are.
func NoteRelease(ctx context.Context, writer client.Writer, p *v1alpha1.PodProtector, by string) error {
	for _, uid := range []types.UID{p.UID, types.UID(p.Annotations[v1alpha1.AnnotationRestored])} {
		if uid == "" {
			continue
		}
		note := releaseOf(p, uid, by)
		err := writer.Create(ctx, note)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
			err = writer.Create(ctx, aboutNamespace(note))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("record the release: %w", err)
		}
	}
	return nil
}

func releaseOf(p *v1alpha1.PodProtector, uid types.UID, by string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: noteOf(uid)},
		EventTime:  metav1.NowMicro(), ReportingController: by, ReportingInstance: by,
		Type: corev1.EventTypeNormal, Action: "Release", Reason: releaseReason,
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector", Namespace: p.Namespace, Name: p.Name, UID: uid,
		},
		Note: "Its end was asked for: it protects no pods any more.",
	}
}

// aboutNamespace is the event in metav1.NamespaceDefault: an API server stores an event in the namespace of its object only.
func aboutNamespace(note *eventsv1.Event) *eventsv1.Event {
	namespace := note.DeepCopy()
	namespace.ResourceVersion, namespace.Namespace = "", metav1.NamespaceDefault
	namespace.Regarding = corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: note.Namespace}
	namespace.Note = fmt.Sprintf("PodProtector %s was released: it protects no pods any more.", note.Regarding.Name)
	return namespace
}

// WasReleased reports whether the release of that very protector was recorded. live must read from the API server.
func WasReleased(ctx context.Context, live client.Reader, p *v1alpha1.PodProtector) (bool, error) {
	for _, namespace := range []string{p.Namespace, metav1.NamespaceDefault} {
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: noteOf(p.UID)}, &eventsv1.Event{})
		if !apierrors.IsNotFound(err) {
			return err == nil, err
		}
	}
	return false, nil
}

func noteOf(uid types.UID) string { return "released-" + string(uid) }
