package sharder

import (
	"context"
	"sync"
)

// graves caches, for one round, which shards are dead, so that it is not checked again for each of their objects.
type graves struct {
	mu sync.Mutex
	of map[string]bool
}

// maxGraves bounds the cache: any user can label objects with shards that never existed.
const maxGraves = 1000

// forget starts a new round.
func (g *graves) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of = nil
}

func (g *graves) isGone(ctx context.Context, p *pass, shard string) (bool, error) {
	g.mu.Lock()
	isGone, known := g.of[shard]
	g.mu.Unlock()
	if known {
		return isGone, nil
	}
	isGone, err := p.roll.IsGone(ctx, p.ring, shard)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.of) >= maxGraves || g.of == nil {
		g.of = map[string]bool{}
	}
	g.of[shard] = isGone
	return isGone, nil
}
