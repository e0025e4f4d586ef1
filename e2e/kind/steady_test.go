package kind_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// A steady attack has this number of clients, and each of them pauses between removals. That makes about 80 removals a second.
	steadyClients = 8
	steadyPause   = 100 * time.Millisecond
)

// steadyAttack removes available pods, one after the other, until its context ends. It skips unavailable pods, which are not protected.
// Otherwise kubelets and the scheduler would only be busy with replacements.
type steadyAttack struct{ recorder *storm.Recorder }

// Name implements storm.Attack.
func (steadyAttack) Name() string { return "steady deletes" }

// Run implements storm.Attack.
func (a steadyAttack) Run(ctx context.Context, tally *storm.Tally) error {
	var running sync.WaitGroup
	for client := range steadyClients {
		random := rand.New(rand.NewPCG(1, uint64(client)))
		running.Go(func() {
			pause := time.NewTicker(steadyPause)
			defer pause.Stop()
			for {
				if pod, ok := a.recorder.Pick(random); ok && pod.Available {
					if err := pod.Delete(ctx); err == nil || ctx.Err() == nil {
						tally.Observe(err)
					}
				}
				select {
				case <-pause.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	running.Wait()
	return nil
}
