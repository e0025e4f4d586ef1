package removal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The clock of the webhook may be behind. In a counted cell, the time of the count compensates for it.
func TestYoungPodIsChargedInCellsWithoutCounts(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "uid-0"}}
	pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	protector := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{MinAvailable: v1alpha1.Pods(1), MinReadySeconds: 60}}
	counted := protector.DeepCopy()
	counted.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-1", Aggregation: v1alpha1.Aggregation{LastEventTime: metav1.NewMicroTime(now)}}}
	for claim, c := range map[string]struct {
		charge Charge
		cell   string
		ready  corev1.ConditionStatus
		want   int
	}{
		"a cell that is counted":                         {Charge{Protector: counted}, "worker-1", corev1.ConditionTrue, 0},
		"another cell":                                   {Charge{Protector: counted}, "worker-2", corev1.ConditionTrue, 1},
		"a protector that is not counted":                {Charge{Protector: protector}, "worker-1", corev1.ConditionTrue, 1},
		"a pod that is not ready, where none is counted": {Charge{Protector: protector}, "worker-1", corev1.ConditionFalse, 0},
		"a protector that has vanished":                  {Charge{Protector: counted, Vanished: true}, "worker-1", corev1.ConditionTrue, 1},
		"a pod that is not ready, of a vanished one":     {Charge{Protector: counted, Vanished: true}, "worker-1", corev1.ConditionFalse, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Status.Conditions[0].Status = c.ready
			r := Request{Operation: v1alpha1.OperationDelete, Pod: NewPod(pod)}
			c.charge.Assess(r, c.cell, now)
			charges, free := ChargesFor([]Charge{c.charge}, true, r)
			if len(charges) != c.want {
				t.Errorf("ChargesFor() = %d charges (%s), want %d", len(charges), free, c.want)
			}
		})
	}
}
