package living_test

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// keeper watches the pods of all cells, and knows the floor that must hold.
type keeper struct {
	*lab
	floor    int
	recorder *storm.Recorder
}

// keep protects the pods of all cells, of which there are so many, and watches the floor until the test ends. The rate of the
// aggregators is Protect's.
func keep(l *lab, pods, floor int, change ...func(*v1alpha1.PodProtectorSpec)) *keeper {
	l.Helper()
	l.Protect(floor, change...)
	l.AwaitSummary(e2e.AllAvailable(pods))
	k := &keeper{lab: l, floor: floor}
	k.begin()
	l.Cleanup(func() { k.judge() })
	return k
}

func (k *keeper) begin() {
	k.Helper()
	var err error
	k.recorder, err = storm.StartRecorder(k.Context(), k.App(0).Scope(k.Cells), storm.RecorderOptions{})
	k.Must(err)
}

// judge fails the test if a removal broke the floor.
func (k *keeper) judge() {
	k.Helper()
	verdict := storm.Judge(k.recorder.Stop(), k.floor)
	if verdict.OverAdmissions != 0 {
		k.Errorf("%d removals broke the floor of %d, %d pods were available at least", verdict.OverAdmissions, k.floor, verdict.MinAvailable)
	}
}

// untouched fails the test if any pod was removed since the watch began: there was no budget.
func (k *keeper) untouched() {
	k.Helper()
	if verdict := storm.Judge(k.recorder.Record(), k.floor); verdict.Removals != 0 {
		k.Errorf("%d pods were removed without budget for any", verdict.Removals)
	}
}

// lower gives budget by a lower floor, which is that of the watch from now on.
func (k *keeper) lower(floor int) {
	k.Helper()
	k.judge()
	k.floor = floor
	k.begin()
	k.Eventually(func() string {
		p := k.Protector()
		p.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
		return e2e.Word(k.Core.Update(k.Context(), p))
	})
}
