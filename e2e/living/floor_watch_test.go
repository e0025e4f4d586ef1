package living_test

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// floorWatch records the pods of all cells, and checks that no removal breaks the floor.
type floorWatch struct {
	*fixture
	floor    int
	recorder *storm.Recorder
}

// startFloorWatch creates a protector, waits until it has the given number of available pods, and checks the floor until the test ends.
func startFloorWatch(l *fixture, pods, floor int, change ...func(*v1alpha1.PodProtectorSpec)) *floorWatch {
	l.Helper()
	l.CreateProtector(floor, change...)
	l.WaitForSummary(e2e.AllAvailable(pods))
	k := &floorWatch{fixture: l, floor: floor}
	k.startRecorder()
	l.Cleanup(func() { k.expectFloorHeld() })
	return k
}

func (k *floorWatch) startRecorder() {
	k.Helper()
	var err error
	k.recorder, err = storm.StartRecorder(k.Context(), k.Application(0).Scope(k.Cells), storm.RecorderOptions{})
	k.Must(err)
}

// expectFloorHeld fails the test if a removal broke the floor.
func (k *floorWatch) expectFloorHeld() {
	k.Helper()
	verdict := storm.Judge(k.recorder.Stop(), k.floor)
	if verdict.OverAdmissions != 0 {
		k.Errorf("%d removals broke the floor of %d, lowest available %d", verdict.OverAdmissions, k.floor, verdict.MinAvailable)
	}
}

// expectNoRemoval fails the test if any pod was removed since the watch began: there was no budget.
func (k *floorWatch) expectNoRemoval() {
	k.Helper()
	if verdict := storm.Judge(k.recorder.Record(), k.floor); verdict.Removals != 0 {
		k.Errorf("%d pods were removed, want 0: no budget existed", verdict.Removals)
	}
}

// lowerFloor lowers the floor to create budget. From then on the watch checks the new floor.
func (k *floorWatch) lowerFloor(floor int) {
	k.Helper()
	k.expectFloorHeld()
	k.floor = floor
	k.startRecorder()
	k.Eventually(func() string {
		p := k.GetProtector()
		p.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
		return e2e.ErrorText(k.Core.Update(k.Context(), p))
	})
}
