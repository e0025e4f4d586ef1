package review

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// removalRecorder records admitted removals without a grace period in their cells. A kubelet that was disconnected may never see the
// deletionTimestamp of such a pod. The node guard recognizes by the record that the pod was not lost (rule N3).
type removalRecorder struct {
	cells    *Cells
	cores    *reserve.Cores
	verifier *verifier
	tracer   *tracing.Tracer
	now      func() time.Time
}

// maxRecordedUser limits the user name in a record, in bytes.
const maxRecordedUser = 256

// record records a removal that is about to be admitted, if it has no grace period and its pod is protected. It returns the denial of a
// removal that it could not record.
func (w *removalRecorder) record(ctx context.Context, cell string, r removal.Request) *removal.Denial {
	if w == nil || r.DryRun || !r.IsImmediate() || !w.cores.MayCover(cell, r) {
		return nil
	}
	// Only removals that are charged have been verified.
	if denial := w.verifier.verify(ctx, cell, r, nil); denial != nil {
		return denial // rule 15
	}
	if err := w.createEvent(ctx, cell, r); err != nil {
		return &removal.Denial{Cause: removal.CauseUnrecorded, Detail: reserve.ClientReason(err)}
	}
	return nil
}

func (w *removalRecorder) createEvent(ctx context.Context, cell string, r removal.Request) error {
	client, err := w.cells.client(cell)
	if err != nil {
		return err
	}
	ctx, span := w.tracer.Call(ctx, tracing.SpanRecordRemoval)
	defer span.End()
	_, err = client.CoreV1().Events(r.Namespace).Create(ctx, w.eventOf(r), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // an earlier attempt has recorded it
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// No attempt could ever record it. Denying it would keep the namespace from being deleted.
		return nil
	}
	tracing.RecordError(span, err)
	return err
}

func (w *removalRecorder) eventOf(r removal.Request) *corev1.Event {
	now := metav1.NewTime(w.now())
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: podhold.AdmittedEvent(r.Pod.UID)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: r.Namespace, Name: r.PodName, UID: r.Pod.UID,
		},
		Reason:         podhold.ReasonRemovalAdmitted,
		Message:        fmt.Sprintf("Breakwater admitted the removal of pod %q without a grace period, requested by %q.", r.PodName, clusters.Truncate(r.User, maxRecordedUser)),
		Type:           corev1.EventTypeNormal,
		Source:         corev1.EventSource{Component: "breakwater-webhook"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
