package aggregator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// emitSpreadEvent emits an event when the written status reports that the pods are no longer distributed as required, or that they are
// again. If several aggregators come to the same conclusion, only one of them has written it.
func (l *leadership) emitSpreadEvent(before, after *v1alpha1.PodProtector) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
	switch {
	case is == nil || was != nil && was.Status == is.Status:
	case is.Status == metav1.ConditionFalse:
		l.events.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Conclude", "%s", clusters.EventNote(is.Message))
	case is.Status == metav1.ConditionTrue && was != nil:
		l.events.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.ConditionSpreadSatisfied, "Conclude", "%s", clusters.EventNote(is.Message))
	}
}
