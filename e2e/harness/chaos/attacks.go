package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

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
