package sharder

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// passResult is what the last passes found out about a ring.
type passResult struct {
	// at is when the objects were counted; zero means not yet.
	at    time.Time
	count count
	// shards are the shards by which they were counted.
	shards *ring.Shards
	// balanced is the condition; without a type nothing is known yet.
	balanced metav1.Condition
	inspection
}

// inspection has the problems of a ring's spec.
type inspection struct {
	generation int64
	problems   []problem
	inspected  time.Time
}

// passResults are the findings of all rings.
type passResults struct {
	mu     sync.Mutex
	byRing map[string]passResult
	// notify is called for each ring with a new finding.
	notify func(ring string)
}

func (f *passResults) get(ring string) passResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byRing[ring]
}

func (f *passResults) update(ring string, update func(*passResult)) {
	f.mu.Lock()
	result := f.byRing[ring]
	update(&result)
	f.byRing[ring] = result
	f.mu.Unlock()
	f.notify(ring)
}

func (f *passResults) remove(ring string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byRing, ring)
}
