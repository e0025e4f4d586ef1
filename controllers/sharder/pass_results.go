package sharder

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
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

// reportCounts records the counts of a pass. If the pass failed for some objects, the counts stay unknown.
func (p *pass) reportCounts(err error) {
	if err != nil {
		p.results.update(p.ring.Name, func(f *passResult) { f.balanced = failedCondition(err) })
		return
	}
	p.metrics.setCounts(p.ring.Name, p.count)
	p.results.update(p.ring.Name, func(f *passResult) {
		f.at, f.shards, f.count, f.balanced = p.now(), p.shards, p.count, p.balancedCondition()
	})
	p.reported = p.now()
}

// reportMoves records how many objects are being moved.
func (p *pass) reportMoves() {
	inProgress := int64(len(p.moves.inProgress))
	if inProgress == p.count.draining || p.now().Sub(p.reported) < reportInterval && inProgress > 0 {
		return
	}
	p.count.draining, p.reported = inProgress, p.now()
	p.metrics.objects.WithLabelValues(p.ring.Name, "draining").Set(float64(inProgress))
	p.results.update(p.ring.Name, func(f *passResult) { f.count.draining = inProgress })
}

// reportInterval is how often reportMoves reports a changed number.
const reportInterval = 2 * time.Second

// balancedCondition returns the condition on whether all objects are with their shards.
func (p *pass) balancedCondition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse}
	switch {
	case p.failures.number > 0:
		c.Reason = v1alpha1.ReasonResyncFailed
		c.Message = fmt.Sprintf("The sharder could not assign %d objects and retries: %s: %v.", p.failures.number, p.failures.subject, p.failures.err)
	case p.count.unassigned > 0 && len(p.shards.Shards()) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoShards, fmt.Sprintf("%d objects have no shard, because none is available.", p.count.unassigned)
	case p.count.moving > 0:
		c.Reason, c.Message = v1alpha1.ReasonMoving, fmt.Sprintf("%d objects are moving to other shards, at most %d at a time.", p.count.moving, p.ring.Spec.MaxConcurrentMoves)
	case p.deferred > 0:
		c.Reason, c.Message = v1alpha1.ReasonMoving, fmt.Sprintf("%d objects wait until the sharder has confirmed that their shards have stopped.", p.deferred)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonBalanced, "All objects are assigned to their shards."
	}
	c.Message = clusters.Truncate(c.Message, maxMessage)
	return c
}

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 4096

// failedCondition returns the condition for a pass that failed.
func failedCondition(err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonResyncFailed,
		Message: clusters.Truncate(fmt.Sprintf("The sharder could not read all objects and retries: %v.", err), maxMessage),
	}
}
