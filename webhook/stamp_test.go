package webhook

import (
	"sync"
	"testing"
	"time"
)

// A removal that gives back tells its reservation from that of another request by the stamp.
func TestNoTwoRemovalsHaveOneStamp(t *testing.T) {
	at := time.Unix(1, 500)
	p := &Protection{now: func() time.Time { return at }}
	const callers, each = 8, 1000
	var running sync.WaitGroup
	var mu sync.Mutex
	seen := map[time.Time]bool{}
	for range callers {
		running.Go(func() {
			for range each {
				stamp := p.stamp()
				mu.Lock()
				seen[stamp] = true
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if len(seen) != callers*each {
		t.Errorf("%d different stamps of %d removals at one instant", len(seen), callers*each)
	}
	at = at.Add(time.Minute)
	if stamp := p.stamp(); !stamp.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("a minute later the stamp is %s, want the time, %s", stamp, at)
	}
}
