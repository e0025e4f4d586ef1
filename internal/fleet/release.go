package fleet

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

// NoteRelease tells of a protector that it is about to be let go, by an event that everybody can find. Who did not watch
// when it went sees only that it is not there any more, and would take it for one that vanished. Of one that was made anew the
// release is also that of the one before. Apiservers keep events for an hour.
func NoteRelease(ctx context.Context, writer client.Writer, p *v1alpha1.PodProtector, by string) error {
	for _, uid := range []types.UID{p.UID, types.UID(p.Annotations[v1alpha1.AnnotationRestored])} {
		if uid == "" {
			continue
		}
		err := writer.Create(ctx, releaseOf(p, uid, by))
		// A namespace that is being deleted takes no new objects, and its protectors must go all the same.
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("tell of the release: %w", err)
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

// WasReleased tells whether somebody has noted the release of that very protector. Live must read from the apiserver.
func WasReleased(ctx context.Context, live client.Reader, p *v1alpha1.PodProtector) (bool, error) {
	err := live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: noteOf(p.UID)}, &eventsv1.Event{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func noteOf(uid types.UID) string { return "released-" + string(uid) }
