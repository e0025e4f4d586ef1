package webhook

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// breakGlass admits break-glass removals: those of pods whose annotation overrides the protectors.
type breakGlass struct {
	reader *podReader
	cores  coreSet
	events *refusalEvents
	log    logr.Logger
}

// confirm reads the pod of a request that claims to be break-glass, and returns the request with the annotation of that
// pod (rule 15). exists is false if the pod does not exist. If the pod cannot be read, the request is not break-glass and
// unread is the reason. The pod of an eviction was read from its cell already.
func (b *breakGlass) confirm(ctx context.Context, cell string, r removal.Request) (confirmed removal.Request, exists bool, unread error) {
	if r.Operation == v1alpha1.OperationEvict || !r.IsBreakGlass() {
		return r, true, nil
	}
	pod, unread := b.reader.read(ctx, cell, r)
	if pod == nil && unread == nil {
		return r, false, nil
	}
	return r.WithBreakGlassOf(pod), true, unread
}

// admit admits a removal that was refused. A protector that was reachable has reserved it beyond its budget, so that no
// other removal uses budget that does not exist. One that was not reachable sees the removal in a later snapshot. The
// webhook reports the override in the answer, the log and an event.
func (b *breakGlass) admit(cell string, r removal.Request, answer removal.Answer) removal.Answer {
	answer = answer.AdmitBreakGlass(r.BreakGlassReason())
	if answer.Overridden == nil || r.DryRun {
		return answer
	}
	message := fmt.Sprintf("Pod %q in cell %q goes although %s: its annotation %s is set. Asked by %q.",
		r.PodName, cell, answer.Overridden.Verdict, v1alpha1.AnnotationForceDelete, r.User)
	if answer.Overridden.Reason != "" {
		message += fmt.Sprintf(" The reason given is %q.", answer.Overridden.Reason)
	}
	b.log.Info("Admitted break-glass removal", "cell", cell, "namespace", r.Namespace, "pod", r.PodName, "user", r.User,
		"over", answer.Overridden.Verdict, "protectors", answer.Protectors, "reason", answer.Overridden.Reason)
	if by := answer.Overridden.DeniedBy; by != nil {
		b.events.recordOverride(b.cores.named(by.Core), by, message)
	}
	return answer
}
