package reserve

import (
	"sync"
	"time"
)

const (
	// farCore is the shortest duration of a write from which a core counts as far away.
	farCore = 20 * time.Millisecond
	// distanceTTL is how long a write counts for the distance of a core.
	distanceTTL = 5 * time.Second
)

// coreDistance estimates the network latency to a core from the shortest of the recent writes. Load makes some writes slow, but distance
// makes all of them slow. It is safe for concurrent use.
type coreDistance struct {
	mu       sync.Mutex
	shortest time.Duration
	at       time.Time
}

// record records how long a write took that ended now.
func (d *coreDistance) record(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || took <= d.shortest || now.Sub(d.at) > distanceTTL {
		d.shortest, d.at = took, now
	}
}

// farForEscrow is the shortest duration of a write from which a lone removal reserves in advance. A core on a busy machine is not that slow for long.
const farForEscrow = 2 * farCore

// isFarForEscrow reports whether lone removals should reserve in advance.
func (d *coreDistance) isFarForEscrow() bool { return d.shortestWrite() >= farForEscrow }

// isFar reports whether the time of a write is mostly network latency.
func (d *coreDistance) isFar() bool { return d.shortestWrite() >= farCore }

func (d *coreDistance) shortestWrite() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shortest
}
