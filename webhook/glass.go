package webhook

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// breakGlass admits a removal that was refused. A protector that was reachable has reserved it beyond its budget, so that no
// other removal uses budget that does not exist. One that was not reachable sees the removal in a later snapshot. The
// webhook reports the override in the answer, the log and an event.
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
