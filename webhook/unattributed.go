package webhook

import (
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// recordUnattributed creates an event on the Cell for a refusal that no protector is responsible for. It uses the same pause
// as events on protectors, once for each reason. All unknown cells share one event, since any client that reaches the
// webhook can name any cell. A pod that does not exist causes no event, since there was nothing to remove.
func (p *Protection) recordUnattributed(cell string, review *admissionv1.AdmissionRequest, answer removal.Answer) {
	if answer.Verdict == removal.VerdictNoPod || ptr.Deref(review.DryRun, false) {
		return
	}
	core := p.eventCore()
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
	p.refusalEvents.emit(about, func(more int) {
		core.events.Eventf(involved, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}

// eventCore returns the core most likely to accept events: one that has been read, or else any.
func (p *Protection) eventCore() *core {
	for _, core := range p.cores {
		if core.synced.Load() {
			return core
		}
	}
	if len(p.cores) > 0 {
		return p.cores[0]
	}
	return nil
}
