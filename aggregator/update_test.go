package aggregator

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// updateTest is a world with two pods, of which the first was just updated: none of its containers has restarted yet.
type updateTest struct {
	*simulatedCell
	t   *testing.T
	pod *corev1.Pod
}

func newUpdateTest(t *testing.T) updateTest {
	t.Helper()
	w := newSimulatedCell(1, 100)
	w.stored.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationUpdate}
	w.create(true)
	w.create(true)
	w.lead()
	u := updateTest{w, t, w.pods["uid-1"]}
	u.count("before the update", 2, 0)
	u.review(u.pod, v1alpha1.OperationUpdate)
	u.takeEffect(0, false)
	u.count("after the update", 2, 1)
	return u
}

// count delivers all events to the aggregator, lets it write, and checks the counts.
func (u updateTest) count(when string, available, reserved int) {
	u.t.Helper()
	u.newest().deliver(u.events, len(u.events))
	if err := u.beginAggregation(u.newest()); err != nil {
		u.t.Fatal(err)
	}
	u.finishAggregation(len(u.pending) - 1)
	if err := u.check(); err != nil {
		u.t.Errorf("%s: %v", when, err)
	}
	budget := quota.BudgetOf(u.stored)
	held := len(slices.Collect(quota.Reservations(&quota.CellOf(u.stored, simulatedCellName).AdmissionHistory)))
	if budget.Available != available || held != reserved {
		u.t.Errorf("%s: %d available and %d reservations, want %d and %d", when, budget.Available, held, available, reserved)
	}
}

// restartPod restarts the pod's container and makes it ready again.
func (u updateTest) restartPod() {
	u.t.Helper()
	u.restart(u.pod)
	u.count("when the container is restarted", 1, 1)
	setReady(u.pod, true)
	u.recordEvent(u.pod, false)
	u.count("when the pod is back", 2, 0)
}

func TestUpdateStaysReservedUntilContainersRestart(t *testing.T) {
	u := newUpdateTest(t)
	u.observeGeneration(u.pod)
	u.count("when the kubelet has seen it, and the old container runs", 2, 1)
	u.restartPod()
}

func TestUpdateStaysReservedWhenRemovalFails(t *testing.T) {
	u := newUpdateTest(t)
	u.review(u.pod, v1alpha1.OperationDelete)
	u.inFlight = nil // another admission webhook denied it
	u.count("when the pod was to be removed, too", 2, 1)
	u.passTime(simulatedDeadline + time.Second)
	u.count("when the removal can no longer succeed", 2, 1)
	u.count("and again", 2, 1)
	u.observeGeneration(u.pod)
	u.restartPod()
}
