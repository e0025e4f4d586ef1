package aggregator

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// protectorEvents emits events on protectors. Its methods must be called after the status that they report was written.
type protectorEvents struct {
	cell     string
	recorder events.EventRecorder
}

// maxNamedPods is the maximum number of pods that an event names.
const maxNamedPods = 5

// emitOverdue emits an event that names the pods that were not available again after their update in time.
func (e *protectorEvents) emitOverdue(p *v1alpha1.PodProtector, overdue []quota.Reservation) {
	if len(overdue) == 0 {
		return
	}
	var names []string
	for _, r := range overdue[:min(len(overdue), maxNamedPods)] {
		names = append(names, r.PodName)
	}
	e.recorder.Eventf(p, nil, corev1.EventTypeWarning, "UpdateOverdue", "Settle", "%s", clusters.EventNote(fmt.Sprintf(
		"In cell %s, Breakwater has not seen %s updated and available again within %s (%s). Such an update no longer consumes budget; if its "+
			"pod restarts later, no reservation covers it. Their containers may not restart at all, or their kubelet may not set status.observedGeneration.",
		e.cell, printable.Count(len(overdue), "pod"), p.Spec.AdmissionHistory.UpdateTimeoutOrDefault(), strings.Join(names, ", "))))
}

// emitSpread emits an event when the written status reports that the pods are no longer distributed as required, or that they are
// again. If several aggregators come to the same conclusion, only one of them has written it.
func (e *protectorEvents) emitSpread(before, after *v1alpha1.PodProtector) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
	switch {
	case is == nil || was != nil && was.Status == is.Status:
	case is.Status == metav1.ConditionFalse:
		e.recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Conclude", "%s", clusters.EventNote(is.Message))
	case is.Status == metav1.ConditionTrue && was != nil:
		e.recorder.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.ConditionSpreadSatisfied, "Conclude", "%s", clusters.EventNote(is.Message))
	}
}

// emitExpectation emits an event when the written status reports that the expectation is too low. Only one of the aggregators has written it.
func (e *protectorEvents) emitExpectation(before, after *v1alpha1.PodProtector) {
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
	if is == nil || is.Status != metav1.ConditionTrue || meta.IsStatusConditionTrue(before.Status.Conditions, is.Type) {
		return
	}
	e.recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Conclude", "%s", clusters.EventNote(is.Message))
}
