package review

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/wake"
	"github.com/go-logr/logr"
)

// denialReporter reports denials: in metrics, in events, and to the retrier, which wakes the denied client when there
// is budget again.
type denialReporter struct {
	cores   *reserve.Cores
	counter *denialCounter
	events  *denialEvents
	// retrier is nil when it is not enabled.
	retrier *wake.Retrier
	// preemptionBackoff delays repeated denials to the scheduler.
	preemptionBackoff wake.PreemptionBackoff
	log               logr.Logger
	now               func() time.Time
}

// report reports the denial of a removal, or that a denial was overridden. It returns when the answer may be sent.
func (f *denialReporter) report(ctx context.Context, cell string, r removal.Request, answer removal.Answer) {
	if answer.Allowed {
		f.reportOverride(cell, r, answer)
		return
	}
	if by := answer.DeniedBy; by != nil {
		f.counter.inc(by.Core, by.Key)
		f.events.recordDenial(f.cores.Named(by.Core), cell, r, answer)
		f.retrier.Enqueue(cell, r, answer.Verdict, f.cores.Ref(*by))
	}
	f.preemptionBackoff.Delay(ctx, r, f.now())
}

// reportOverride reports a break-glass removal that is admitted over a denial, in the log and an event. A protector that was reachable has reserved it
// beyond its budget, so that no other removal uses budget that does not exist. One that was not reachable sees the removal in a later snapshot.
func (f *denialReporter) reportOverride(cell string, r removal.Request, answer removal.Answer) {
	over := answer.Overridden
	if over == nil || r.DryRun {
		return
	}
	message := fmt.Sprintf("Pod %q in cell %q goes although %s: its annotation %s is set. Asked by %q.",
		r.PodName, cell, over.Verdict, v1alpha1.AnnotationForceDelete, r.User)
	if over.Reason != "" {
		message += fmt.Sprintf(" The reason given is %q.", over.Reason)
	}
	f.log.Info("Admitted break-glass removal", "cell", cell, "namespace", r.Namespace, "pod", r.PodName, "user", r.User,
		"over", over.Verdict, "protectors", answer.Protectors, "reason", over.Reason)
	if by := over.DeniedBy; by != nil {
		f.events.recordOverride(f.cores.Named(by.Core), by, message)
	}
}

// coreForEvents returns the core most likely to accept events: one that has been read, or else any.
func (f *denialReporter) coreForEvents() *reserve.Core {
	for _, core := range f.cores.All {
		if core.Synced.Load() {
			return core
		}
	}
	if len(f.cores.All) > 0 {
		return f.cores.All[0]
	}
	return nil
}

// reportUnattributed creates an event on the Cell for a denial that no protector is responsible for. It uses the same pause
// as events on protectors, once for each reason. All unknown cells share one event, since any client that reaches the
// webhook can name any cell. A pod that does not exist, or is not the one that the client means, causes no event, since
// there was nothing to remove.
func (f *denialReporter) reportUnattributed(cell string, review *admissionv1.AdmissionRequest, answer removal.Answer) {
	if answer.Verdict == removal.VerdictNoPod || answer.Verdict == removal.VerdictFailedPrecondition || ptr.Deref(review.DryRun, false) {
		return
	}
	core := f.coreForEvents()
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
		core.Events.Eventf(involved, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}
