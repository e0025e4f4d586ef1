package aggregator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// newRelabelTest returns a world with some pods whose protector also guards updates and relabels.
func newRelabelTest(t *testing.T, pods int, threshold int32) updateTest {
	t.Helper()
	w := newSimulatedCell(1, threshold)
	w.stored.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationUpdate, v1alpha1.OperationRelabel}
	for range pods {
		w.create(true)
	}
	w.lead()
	u := updateTest{w, t, w.pods["uid-1"]}
	u.count("before the relabel", pods, 0)
	return u
}

// written is count without delivering pending events to the aggregator.
func (u updateTest) written(when string, available, reserved int) {
	u.t.Helper()
	if err := u.beginAggregation(u.newest()); err != nil {
		u.t.Fatal(err)
	}
	u.finishAggregation(len(u.pending) - 1)
	if err := u.check(); err != nil {
		u.t.Errorf("%s: %v", when, err)
	}
	if got := quota.BudgetOf(u.stored); got.Available != available || got.Reserved != reserved {
		u.t.Errorf("%s: %d available and %d reserved, want %d and %d", when, got.Available, got.Reserved, available, reserved)
	}
}

// Rule 14: the pod stays alive. It is not in the counts once the snapshot has its new labels.
func TestRelabelStaysReservedUntilSnapshotShowsIt(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.count("while it is in flight", 3, 1)
	u.takeEffect(0, false)
	u.written("while the watch is late", 3, 1)
	u.count("when the snapshot shows it", 2, 0)
}

// The live read after the admission deadline shows the pod alive: that alone must not settle its relabel.
func TestLivePodDoesNotSettleRelabelWithLateWatch(t *testing.T) {
	for _, merged := range []bool{false, true} {
		u := newRelabelTest(t, 3, map[bool]int32{false: 100, true: 0}[merged])
		u.review(u.pod, v1alpha1.OperationRelabel)
		u.written("when it was reserved", 3, 1)
		u.takeEffect(0, false)
		u.passTime(simulatedDeadline + time.Second)
		u.written("when the deadline has passed and the watch is late", 3, 1)
		u.count("when the snapshot shows it", 2, 0)
	}
}

func TestRelabelDeniedElsewhereExpires(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.count("when it was reserved", 3, 1)
	u.passTime(simulatedDeadline + time.Second)
	u.count("when it can no longer succeed", 3, 0)
}

// The API server reviews a change again if the pod has changed since.
func TestRelabelOfChangedPodIsVoid(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.count("when it was reserved", 3, 1)
	u.pod.Generation, u.pod.Status.ObservedGeneration = 2, 2
	u.recordEvent(u.pod, false)
	u.count("when the pod has another version", 3, 0)
	u.takeEffect(0, false)
	if u.relabels != 0 {
		t.Error("a change was stored that was reviewed for another version")
	}
}

// A snapshot that is older than the review also shows the pod outside, if it had just entered.
func TestPodThatEnteredAndLeavesStaysReserved(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.relabel(u.pod, "")
	u.count("when the pod is outside", 2, 0)
	u.relabel(u.pod, "web")
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.written("when the watch has not shown that it came", 2, 1)
	u.newest().deliver(u.events, 1)
	u.written("when it has shown that", 3, 1)
	u.takeEffect(0, false)
	u.written("when it has left again", 3, 1)
	u.count("when the watch has shown it", 2, 0)
}

func TestRelabelSurvivesChangeOfLeader(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.lead()
	u.count("while it is in flight", 3, 1)
	u.takeEffect(0, false)
	u.lead()
	u.count("in a term that began when it had left", 2, 0)
}

func TestMergedRelabelsSettleOneByOne(t *testing.T) {
	u := newRelabelTest(t, 5, 0)
	for _, uid := range []types.UID{"uid-1", "uid-2", "uid-3"} {
		u.review(u.pods[uid], v1alpha1.OperationRelabel)
	}
	u.count("when they are merged", 5, 3)
	u.takeEffect(0, false)
	u.takeEffect(0, false)
	u.count("when two have left", 3, 1)
	u.takeEffect(0, false)
	u.count("when all have left", 2, 0)
}

func TestRelabelOfUpdatedPod(t *testing.T) {
	begin := func() updateTest {
		u := newRelabelTest(t, 2, 100)
		u.review(u.pod, v1alpha1.OperationUpdate)
		u.takeEffect(0, false)
		u.review(u.pod, v1alpha1.OperationRelabel)
		u.count("when it is updated, and may leave", 2, 1)
		return u
	}
	t.Run("ends with the relabel", func(t *testing.T) {
		u := begin()
		u.t = t
		u.takeEffect(0, false)
		u.count("when it has left", 1, 0)
	})
	t.Run("outlives a relabel that failed", func(t *testing.T) {
		u := begin()
		u.t = t
		u.observeGeneration(u.pod)
		u.count("when the pod has another version", 2, 1)
		u.restartPod()
	})
}

// Any change of the pod after the review ends its reservation: a change of the criterion is then in the counts.
func TestCriterionChangeStaysReservedUntilSnapshotShowsIt(t *testing.T) {
	u := newRelabelTest(t, 3, 100)
	u.review(u.pod, v1alpha1.OperationRelabel)
	u.written("while it is in flight", 3, 1)
	criterion(u.pod, "Splendid")
	u.recordEvent(u.pod, false)
	u.inFlight = nil
	u.count("when the snapshot shows it", 2, 0)
}

func criterion(p *corev1.Pod, is string) {
	p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: is}
}
