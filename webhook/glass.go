package webhook

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// override is a refusal that was not heeded.
type override struct {
	verdict VerdictReason
	// by is the protector that refused; nil when none did.
	by *charge
}

// forced tells whether somebody has broken the glass for the pod.
func (r Request) forced() bool { return r.Pod.Annotations[v1alpha1.AnnotationForceDelete] == "true" }

// breakGlass admits what was refused. A protector that could be asked has reserved it beyond its budget, so that nobody else
// uses what is not there; one that could not will see the pod go. Everybody is told.
func (p *Protection) breakGlass(cell string, r Request, answer Answer) Answer {
	if !answer.Allowed {
		answer = Answer{Allowed: true, Protectors: answer.Protectors, forced: &override{answer.Verdict, answer.blames}}
	}
	if answer.forced == nil {
		return answer // it may go anyway
	}
	answer.Verdict = VerdictForced
	if r.DryRun {
		return answer
	}
	what := fmt.Sprintf("Pod %q in cell %q goes although %s: its annotation %s is set. Asked by %q.",
		r.PodName, cell, answer.forced.verdict, v1alpha1.AnnotationForceDelete, r.User)
	p.log.Info("The glass was broken", "cell", cell, "namespace", r.Namespace, "pod", r.PodName, "user", r.User,
		"over", answer.forced.verdict, "protectors", answer.Protectors)
	if answer.forced.by != nil {
		p.refused.noteForced(answer.forced.by, what)
	}
	return answer
}
