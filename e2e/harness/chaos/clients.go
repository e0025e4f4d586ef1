package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// clients delete and evict random pods until the storm ends. In one of four requests, a client asks again for the pod that it or another
// client asked for just before: API servers and impatient users repeat requests.
type clients struct {
	journal  *Journal
	recorder *storm.Recorder
	number   int
	pause    time.Duration
	seed     uint64
	// pauseLock is locked to make all clients pause.
	pauseLock *sync.RWMutex

	mu   sync.Mutex
	last storm.Pod
}

func (c *clients) run(ctx context.Context) {
	var running sync.WaitGroup
	for client := range c.number {
		random := rand.New(rand.NewPCG(c.seed, uint64(client)+1))
		running.Go(func() {
			for c.pauseRandomly(ctx, random) {
				c.removeRandomPod(ctx, client, random)
			}
		})
	}
	running.Wait()
}

func (c *clients) removeRandomPod(ctx context.Context, client int, random *rand.Rand) {
	c.pauseLock.RLock()
	defer c.pauseLock.RUnlock()
	if pod, ok := c.pick(random); ok {
		_ = c.journal.Remove(ctx, client, pod, drawOperation(pod, random)) // the journal records it
	}
}

// pauseRandomly waits for up to twice the pause, so that a storm lasts longer than its budget and the fault.
func (c *clients) pauseRandomly(ctx context.Context, random *rand.Rand) bool {
	select {
	case <-time.After(time.Duration(random.Int64N(2*int64(c.pause) + 1))):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (c *clients) pick(random *rand.Rand) (storm.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if again := random.IntN(4) == 0; again && c.last.Name != "" {
		return c.last, true
	}
	pod, ok := c.recorder.Pick(random)
	if ok {
		c.last = pod
	}
	return pod, ok
}

// drawOperation evicts only pods that were seen to be available. A pod that becomes available after the review of its eviction and before
// the effect is the readiness race, which Breakwater does not promise to win. A delete has no such race: the API server calls the webhook
// again if the pod has changed since the review.
func drawOperation(pod storm.Pod, random *rand.Rand) Operation {
	if random.IntN(3) == 0 && pod.Available {
		return Evict
	}
	return Delete
}

// attacks remove many pods with one request, beside the clients.
type attacks struct {
	scope     storm.Scope
	tally     storm.Tally
	pauseLock *sync.RWMutex // locked to make collect pause
}

// collect deletes the collection of pods in every cell once a second.
func (a *attacks) collect(ctx context.Context) {
	for ctx.Err() == nil {
		a.pauseLock.RLock()
		_ = storm.DeleteCollection{Scope: a.scope, Times: 1}.Run(ctx, &a.tally) // it never returns an error
		a.pauseLock.RUnlock()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// cascade deletes all Deployments. It retries a cell whose API server is unreachable.
func (a *attacks) cascade(ctx context.Context) {
	_ = poll(ctx, func(ctx context.Context) error { // it ends with the storm
		return storm.Cascade{Scope: a.scope}.Run(ctx, &a.tally)
	})
}
