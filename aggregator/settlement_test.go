package aggregator_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func (l *fixture) createCellOf(settlement v1alpha1.Settlement) {
	l.Helper()
	l.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}, Spec: v1alpha1.CellSpec{
		// The deadline must not pass during the test.
		Settlement: settlement, AdmissionDeadline: &metav1.Duration{Duration: time.Hour},
	}})
}

func (l *fixture) wantReserved(want int32) {
	l.Helper()
	l.eventually(func() string {
		if p := l.protector(); p.Status.Summary.Reserved != want {
			return fmt.Sprintf("%d reserved, want %d: %+v", p.Status.Summary.Reserved, want, p.Status.Cells)
		}
		return ""
	})
}

// In these modes any event of any pod ends earlier reservations: here, of a pod without a protector.
func TestAnyEventEndsReservationsInModeClock(t *testing.T) {
	for _, mode := range []v1alpha1.Settlement{v1alpha1.SettlementClock, v1alpha1.SettlementStatus} {
		t.Run(string(mode), func(t *testing.T) {
			l := newFixture(t)
			l.createCellOf(mode)
			l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
			pod := l.createPod("web-0", true)
			l.createPod("web-1", true)
			l.run("a")
			l.wantSummary(v1alpha1.Summary{Total: 2, Available: 2, EstimatedAvailable: 2, Ready: 2, Running: 2, Scheduled: 2})
			reserved := removalOf(l.cell, pod)
			l.reserve(reserved)
			l.wantReserved(1)

			other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "other"}, Spec: template().Spec}
			l.create(other)
			later := metav1.NewTime(reserved.At.Add(2 * time.Second)) // timestamps of pods have a resolution of one second
			other.Status.Conditions = []corev1.PodCondition{{Type: "Seen", Status: corev1.ConditionTrue, LastTransitionTime: later}}
			if err := l.client.Status().Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			l.wantReserved(0)
		})
	}
}

func TestUpdateTriggerEndsReservationsWithoutEvents(t *testing.T) {
	l := newFixture(t)
	l.trigger = modes.Trigger{Namespace: l.namespace, Every: time.Second}
	l.createCellOf(v1alpha1.SettlementStatus)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	pod := l.createPod("web-0", true)
	l.createPod("web-1", true)
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 2, Available: 2, EstimatedAvailable: 2, Ready: 2, Running: 2, Scheduled: 2})
	key := types.NamespacedName{Namespace: l.namespace, Name: "breakwater-update-trigger-" + l.cell}
	trigger := &corev1.Pod{}
	if err := l.client.Get(t.Context(), key, trigger); !apierrors.IsNotFound(err) {
		t.Errorf("the update trigger exists although no protector waits: %v", err)
	}
	l.reserve(removalOf(l.cell, pod))
	l.wantReserved(0)
	if err := l.client.Get(t.Context(), key, trigger); err != nil {
		t.Fatal(err)
	}
	if trigger.Spec.NodeName != "" || len(trigger.Spec.SchedulingGates) == 0 {
		t.Errorf("the trigger can be scheduled: %+v", trigger.Spec)
	}
	if err := l.client.Delete(t.Context(), trigger, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.reserve(removalOf(l.cell, pod))
	l.wantReserved(0)
	l.eventually(func() string { return text(l.client.Get(l.Context(), key, trigger)) })
}
