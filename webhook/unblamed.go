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

// noteUnblamed creates an event on the Cell for a refusal that no protector is responsible for. It uses the same pause
// as events on protectors, once for each reason. All unknown cells share one event, since any client that reaches the
// webhook can name any cell. A pod that does not exist causes no event, since there was nothing to remove.
func (p *Protection) noteUnblamed(cell string, review *admissionv1.AdmissionRequest, answer removal.Answer) {
	if answer.Verdict == removal.VerdictNoPod || ptr.Deref(review.DryRun, false) {
		return
	}
	core := p.teller()
	if core == nil {
		return
	}
	about := denial.ReasonRefused + " Cell " + cell + " " + string(answer.Verdict)
	if answer.Verdict == removal.VerdictUnknownCell {
		about = denial.ReasonRefused + " Cell"
	}
	of := &v1alpha1.Cell{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cell"},
		ObjectMeta: metav1.ObjectMeta{Name: cell},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: review.Namespace, Name: review.Name}}
	message, user, verdict := answer.Status.Message, review.UserInfo.Username, string(answer.Verdict)
	p.refused.tell(about, func(more int) {
		core.events.Eventf(of, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}

// teller returns the core most likely to accept events: one that has been read, or else any.
func (p *Protection) teller() *core {
	for _, core := range p.cores {
		if core.read.Load() {
			return core
		}
	}
	if len(p.cores) > 0 {
		return p.cores[0]
	}
	return nil
}
