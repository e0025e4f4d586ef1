package nodeguard

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	runningFile = "running.json"
	// storeRunningEvery is how often the running time is stored while pods are held. A restart loses at most that much of it.
	storeRunningEvery = time.Minute
)

// running returns the running time; see podhold.Resume. It does not depend on the clock of the node being set: Go measures the time since the
// start by the monotonic clock.
func (g *Guard) running() time.Duration { return g.clock.before + g.clock.Since(g.clock.started) }

// runningClock is the clock of a guard.
type runningClock struct {
	clock.PassiveClock
	// started is when the guard started, and before the running time of earlier guards then.
	started time.Time
	before  time.Duration
}

// keepRunningTime stores the running time until ctx ends.
func (g *Guard) keepRunningTime(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { g.storeRunningTime() }, storeRunningEvery)
}

// storeRunningTime stores the running time while pods are held: nothing else depends on it.
func (g *Guard) storeRunningTime() {
	g.mu.Lock()
	held := len(g.pods.view.Held())
	g.mu.Unlock()
	if held == 0 {
		return
	}
	if err := g.store.saveRunningTime(g.running()); err != nil {
		g.log.Error(err, "Failed to store for how long pods are held: after a restart they are held for longer")
	}
}

func (s *store) saveRunningTime(running time.Duration) error {
	raw, err := json.Marshal(running)
	if err != nil {
		return err
	}
	return s.write(runningFile, withChecksum(raw))
}

// loadRunningTime returns the running time that was stored last; 0 if none was.
func (s *store) loadRunningTime() (running time.Duration, err error) {
	content, err := s.readFile(runningFile)
	if err != nil || content == nil {
		return 0, err
	}
	raw, valid := withoutChecksum(content)
	if !valid {
		return 0, fmt.Errorf("stored %s: the checksum is wrong", runningFile)
	}
	return running, json.Unmarshal(raw, &running)
}
