package aggregator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// relabeling returns a world with some pods whose protector also guards updates and relabels.
func relabeling(t *testing.T, pods int, threshold int32) updating {
	t.Helper()
	w := newWorld(1, threshold)
	w.stored.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationUpdate, v1alpha1.OperationRelabel}
	for range pods {
		w.create(true)
	}
	w.lead()
	u := updating{w, t, w.pods["uid-1"]}
	u.count("before the relabel", pods, 0)
	return u
}

// written is count without delivering pending events to the aggregator.
func (u updating) written(when string, available, reserved int) {
	u.t.Helper()
	if err := u.begin(u.newest()); err != nil {
		u.t.Fatal(err)
	}
	u.finish(len(u.pending) - 1)
	if err := u.check(); err != nil {
		u.t.Errorf("%s: %v", when, err)
	}
	if got := quota.BudgetOf(u.stored); got.Available != available || got.Reserved != reserved {
		u.t.Errorf("%s: %d available and %d reserved, want %d and %d", when, got.Available, got.Reserved, available, reserved)
	}
}

// Rule 14: the pod stays alive. It is not in the counts once the snapshot has its new labels.
func TestARelabelIsReservedUntilTheSnapshotShowsIt(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.count("while it is in flight", 3, 1)
	u.takeEffect(0, false)
	u.written("while the watch is late", 3, 1)
	u.count("when the snapshot shows it", 2, 0)
}

// The live read after the admission deadline shows the pod alive: that alone must not settle its relabel.
func TestALivePodDoesNotSettleItsRelabelWhileTheWatchIsLate(t *testing.T) {
	for _, merged := range []bool{false, true} {
		u := relabeling(t, 3, map[bool]int32{false: 100, true: 0}[merged])
		u.ask(u.pod, v1alpha1.OperationRelabel)
		u.written("when it was reserved", 3, 1)
		u.takeEffect(0, false)
		u.pass(worldDeadline + time.Second)
		u.written("when the deadline has passed and the watch is late", 3, 1)
		u.count("when the snapshot shows it", 2, 0)
	}
}

func TestARelabelThatAnotherCheckRefusedExpires(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.count("when it was reserved", 3, 1)
	u.pass(worldDeadline + time.Second)
	u.count("when it can no longer succeed", 3, 0)
}

// The API server reviews a change again if the pod has changed since.
func TestARelabelOfAPodThatHasChangedSinceIsVoid(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.count("when it was reserved", 3, 1)
	u.pod.Generation, u.pod.Status.ObservedGeneration = 2, 2
	u.happen(u.pod, false)
	u.count("when the pod has another version", 3, 0)
	u.takeEffect(0, false)
	if u.left != 0 {
		t.Error("the world stores what was reviewed for another version")
	}
}

// A snapshot that is older than the review also shows the pod outside, if it had just entered.
func TestAPodThatCameAndLeavesAgainStaysReserved(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.relabel(u.pod, "")
	u.count("when the pod is outside", 2, 0)
	u.relabel(u.pod, "web")
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.written("when the watch has not shown that it came", 2, 1)
	u.newest().deliver(u.events, 1)
	u.written("when it has shown that", 3, 1)
	u.takeEffect(0, false)
	u.written("when it has left again", 3, 1)
	u.count("when the watch has shown it", 2, 0)
}

func TestARelabelOutlivesALeader(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.lead()
	u.count("while it is in flight", 3, 1)
	u.takeEffect(0, false)
	u.lead()
	u.count("in a term that began when it had left", 2, 0)
}

func TestMergedRelabelsAreSettledOneByOne(t *testing.T) {
	u := relabeling(t, 5, 0)
	for _, uid := range []types.UID{"uid-1", "uid-2", "uid-3"} {
		u.ask(u.pods[uid], v1alpha1.OperationRelabel)
	}
	u.count("when they are merged", 5, 3)
	u.takeEffect(0, false)
	u.takeEffect(0, false)
	u.count("when two have left", 3, 1)
	u.takeEffect(0, false)
	u.count("when all have left", 2, 0)
}

func TestARelabelOfAPodUnderUpdate(t *testing.T) {
	begin := func() updating {
		u := relabeling(t, 2, 100)
		u.ask(u.pod, v1alpha1.OperationUpdate)
		u.takeEffect(0, false)
		u.ask(u.pod, v1alpha1.OperationRelabel)
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
		u.observe(u.pod)
		u.count("when the pod has another version", 2, 1)
		u.comeBack()
	})
}

// Any change of the pod after the review ends its reservation: a change of the criterion is then in the counts.
func TestAChangeOfTheCriterionIsReservedUntilTheSnapshotShowsIt(t *testing.T) {
	u := relabeling(t, 3, 100)
	u.ask(u.pod, v1alpha1.OperationRelabel)
	u.written("while it is in flight", 3, 1)
	criterion(u.pod, "Splendid")
	u.happen(u.pod, false)
	u.inFlight = nil
	u.count("when the snapshot shows it", 2, 0)
}

func criterion(p *corev1.Pod, is string) {
	p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: is}
}
