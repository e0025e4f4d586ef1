package webhook

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/webhook/wake"
)

// refusalReporter reports refusals: in metrics, in events, and to the retrier, which wakes the refused client when there
// is budget again.
type refusalReporter struct {
	cores   coreSet
	counter *refusalCounter
	events  *refusalEvents
	// retrier is nil when it is not enabled.
	retrier *wake.Retrier
	// preemptionBackoff delays repeated refusals to the scheduler.
	preemptionBackoff wake.PreemptionBackoff
	now               func() time.Time
}

// report reports the refusal of a removal. It returns when the refusal may be sent.
func (f *refusalReporter) report(ctx context.Context, cell string, r removal.Request, answer removal.Answer) {
	if answer.DeniedBy != nil {
		by := f.cores.ref(*answer.DeniedBy)
		f.counter.inc(by.core.name, by.key)
		f.events.recordRefusal(by.core, cell, r, answer)
		f.retrier.Enqueue(cell, r, answer.Verdict, by)
	}
	f.preemptionBackoff.Delay(ctx, r, f.now())
}

// reportUnattributed creates an event on the Cell for a refusal that no protector is responsible for. It uses the same pause
// as events on protectors, once for each reason. All unknown cells share one event, since any client that reaches the
// webhook can name any cell. A pod that does not exist, or is not the one that the client means, causes no event, since
// there was nothing to remove.
func (f *refusalReporter) reportUnattributed(cell string, review *admissionv1.AdmissionRequest, answer removal.Answer) {
	if answer.Verdict == removal.VerdictNoPod || answer.Verdict == removal.VerdictFailedPrecondition || ptr.Deref(review.DryRun, false) {
		return
	}
	core := f.cores.forEvents()
	if core == nil {
		return
	}
	about := denial.ReasonRefused + " Cell " + cell + " " + string(answer.Verdict)
	if answer.Verdict == removal.VerdictUnknownCell {
		about = denial.ReasonRefused + " Cell"
	}
	involved := &v1alpha1.Cell{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cell"},
		ObjectMeta: metav1.ObjectMeta{Name: cell},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: review.Namespace, Name: review.Name}}
	message, user, verdict := answer.Status.Message, review.UserInfo.Username, string(answer.Verdict)
	f.events.emit(about, func(more int) {
		core.events.Eventf(involved, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}
