package sharder

import (
	"context"
	"sync"
	"time"
)

// graves remember for a moment which shards were found to be gone, so that it is not asked again for each of their objects. A shard can
// come back at any time, so that it is a short one.
type graves struct {
	mu sync.Mutex
	of map[string]grave
}

type grave struct {
	isGone bool
	at     time.Time
}

const (
	graveTime = 100 * time.Millisecond
	// maxGraves bounds what is remembered: anybody can label objects as of shards that never were.
	maxGraves = 1000
)

func (g *graves) isGone(ctx context.Context, p *pass, shard string) (bool, error) {
	g.mu.Lock()
	known, ok := g.of[shard]
	g.mu.Unlock()
	if now := p.now(); ok && now.Sub(known.at) < graveTime {
		return known.isGone, nil
	}
	at := p.now()
	isGone, err := p.roll.IsGone(ctx, p.ring, shard)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.of) >= maxGraves || g.of == nil {
		g.of = map[string]grave{}
	}
	g.of[shard] = grave{isGone, at}
	return isGone, nil
}
