package sharder

import (
	"context"
	"sync"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// deadShards caches, for one round, which shards are dead, so that it is not checked again for each of their objects.
type deadShards struct {
	registry shardRegistry
	ring     *v1alpha1.ClusterRing

	mu     sync.Mutex
	byName map[string]bool
}

// maxDeadShards bounds the cache: any user can label objects with shards that never existed.
const maxDeadShards = 1000

// reset starts a new round.
func (g *deadShards) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byName = nil
}

func (g *deadShards) isDead(ctx context.Context, shard string) (bool, error) {
	g.mu.Lock()
	isDead, exists := g.byName[shard]
	g.mu.Unlock()
	if exists {
		return isDead, nil
	}
	isDead, err := g.registry.IsGone(ctx, g.ring, shard)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.byName) >= maxDeadShards || g.byName == nil {
		g.byName = map[string]bool{}
	}
	g.byName[shard] = isDead
	return isDead, nil
}
