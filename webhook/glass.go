package webhook

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// breakGlass admits what was refused. A protector that could be asked has reserved it beyond its budget, so that nobody else
// uses what is not there; one that could not will see the pod go. Everybody is told.
func (p *Protection) breakGlass(cell string, r removal.Request, answer removal.Answer) removal.Answer {
	answer = answer.BreakGlass(r.ForceReason())
	if answer.Forced == nil || r.DryRun {
		return answer
	}
	what := fmt.Sprintf("Pod %q in cell %q goes although %s: its annotation %s is set. Asked by %q.",
		r.PodName, cell, answer.Forced.Verdict, v1alpha1.AnnotationForceDelete, r.User)
	if answer.Forced.Reason != "" {
		what += fmt.Sprintf(" The reason given is %q.", answer.Forced.Reason)
	}
	p.log.Info("The glass was broken", "cell", cell, "namespace", r.Namespace, "pod", r.PodName, "user", r.User,
		"over", answer.Forced.Verdict, "protectors", answer.Protectors, "reason", answer.Forced.Reason)
	if by := answer.Forced.By; by != nil {
		p.refused.noteForced(p.core(by.Core), by, what)
	}
	return answer
}
