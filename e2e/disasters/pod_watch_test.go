package disasters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// podWatch watches the pods of cells directly in their clusters, and judges their number by a floor.
type podWatch struct {
	fixture
	recorder *storm.Recorder
	floor    int
	once     sync.Once
}

// startPodWatch starts to watch the pods of the given cells, or of all cells if none is given. The record is judged by stopAndJudge, at the
// latest when the test ends.
func (l fixture) startPodWatch(floor int, cells ...storm.Cell) *podWatch {
	l.Helper()
	if len(cells) == 0 {
		cells = l.Cells
	}
	recorder, err := storm.StartRecorder(l.Context(), l.Application(0).Scope(cells), storm.RecorderOptions{})
	l.Must(err)
	v := &podWatch{fixture: l, recorder: recorder, floor: floor}
	l.Cleanup(v.stopAndJudge)
	return v
}

// stopAndJudge stops the watch and fails the test if the floor was violated. Further calls do nothing.
func (v *podWatch) stopAndJudge() {
	v.Helper()
	v.once.Do(func() {
		verdict := storm.Judge(v.recorder.Stop(), v.floor)
		v.Logf("floor %d: %d removals, lowest available %d, available at the end %d", v.floor, verdict.Removals, verdict.MinAvailable, verdict.FinalAvailable)
		if verdict.OverAdmissions != 0 || verdict.MinAvailable < v.floor {
			v.Errorf("%d over-admissions, lowest available %d, want 0 over-admissions and a floor of %d",
				verdict.OverAdmissions, verdict.MinAvailable, v.floor)
		}
	})
}

// waitForAvailable waits until the given number of pods is available.
func (v *podWatch) waitForAvailable(want int) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), e2e.DefaultTimeout)
	defer cancel()
	v.Must(v.recorder.Wait(ctx, fmt.Sprintf("%d available pods", want), func(now storm.Point) bool { return now.Total == want }))
}

// startAttack starts clients that continuously delete and evict random pods. They stop when the test ends or end is called, which waits for
// them. They evict only available pods: see "the readiness race" in docs/concepts/overview.md.
func (v *podWatch) startAttack() (end func() *storm.Tally) {
	const clients, pause = 4, 50 * time.Millisecond
	ctx, cancel := context.WithCancel(v.Context())
	tally := &storm.Tally{}
	var running sync.WaitGroup
	for client := range clients {
		random := rand.New(rand.NewPCG(1, uint64(client)))
		running.Go(func() {
			for ctx.Err() == nil {
				if pod, ok := v.recorder.Pick(random); ok {
					tally.Observe(requestRemoval(ctx, pod, client%2 == 0 && pod.Available))
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	end = func() *storm.Tally {
		cancel()
		running.Wait()
		return tally
	}
	v.Cleanup(func() { end() })
	return end
}

func requestRemoval(ctx context.Context, pod storm.Pod, evict bool) error {
	if evict {
		return pod.Evict(ctx)
	}
	return pod.Delete(ctx)
}

// waitForExhaustedBudget attacks the pods until the number of available pods is down to the floor, and checks that further removals are
// denied.
func (v *podWatch) waitForExhaustedBudget(protector string) {
	v.Helper()
	end := v.startAttack()
	v.waitForAvailable(v.floor)
	v.waitForDenials(protector, fmt.Sprintf("floor %d, available %d, removals under way 0", v.floor, v.floor))
	counts := end().Counts()
	v.Logf("removals: %+v", counts)
	if counts.Denied == 0 {
		v.Errorf("got %+v, want denials", counts)
	}
}
