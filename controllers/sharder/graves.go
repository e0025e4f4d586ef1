package sharder

import (
	"context"
	"sync"
)

// graves remember in a round which shards were found to be gone, so that it is not asked again for each of their objects.
type graves struct {
	mu sync.Mutex
	of map[string]bool
}

// maxGraves bounds what is remembered: anybody can label objects as of shards that never were.
const maxGraves = 1000

// forget begins a round.
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
