package kind_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// clients of a steady attack, each of which asks so often: about 80 removals a second.
	steadyClients = 8
	steadyPause   = 100 * time.Millisecond
)

// steadyAttack removes pods that are available, one after the other, as long as it may. It skips pods that are not available
// yet, which are not protected: otherwise kubelets and the scheduler would only be busy with their replacements.
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
