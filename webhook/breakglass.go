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
	answer = answer.AdmitBreakGlass(r.BreakGlassReason())
	if answer.Overridden == nil || r.DryRun {
		return answer
	}
	message := fmt.Sprintf("Pod %q in cell %q goes although %s: its annotation %s is set. Asked by %q.",
		r.PodName, cell, answer.Overridden.Verdict, v1alpha1.AnnotationForceDelete, r.User)
	if answer.Overridden.Reason != "" {
		message += fmt.Sprintf(" The reason given is %q.", answer.Overridden.Reason)
	}
	p.log.Info("Admitted break-glass removal", "cell", cell, "namespace", r.Namespace, "pod", r.PodName, "user", r.User,
		"over", answer.Overridden.Verdict, "protectors", answer.Protectors, "reason", answer.Overridden.Reason)
	if by := answer.Overridden.DeniedBy; by != nil {
		p.refusalEvents.recordOverride(p.core(by.Core), by, message)
	}
	return answer
}
