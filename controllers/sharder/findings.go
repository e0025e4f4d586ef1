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

// finding is what the last passes found out about a ring.
type finding struct {
	// at is when the objects were counted; zero means not yet.
	at    time.Time
	count count
	// by are the shards by which they were counted.
	by *ring.Shards
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

// findings are the findings of all rings.
type findings struct {
	mu sync.Mutex
	of map[string]finding
	// tell is called for each ring with a new finding.
	tell func(ring string)
}

func (f *findings) get(ring string) finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[ring]
}

func (f *findings) change(ring string, change func(*finding)) {
	f.mu.Lock()
	now := f.of[ring]
	change(&now)
	f.of[ring] = now
	f.mu.Unlock()
	f.tell(ring)
}

func (f *findings) forget(ring string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, ring)
}

// report records the counts of a pass. If the pass failed for some objects, the counts stay unknown.
func (p *pass) report(err error) {
	if err != nil {
		p.findings.change(p.ring.Name, func(f *finding) { f.balanced = unbalanced(err) })
		return
	}
	p.metrics.count(p.ring.Name, p.count)
	p.findings.change(p.ring.Name, func(f *finding) {
		f.at, f.by, f.count, f.balanced = p.now(), p.shards, p.count, p.balanced()
	})
	p.reported = p.now()
}

// reportMoves records how many objects are being moved.
func (p *pass) reportMoves() {
	onWay := int64(len(p.moves.onWay))
	if onWay == p.count.draining || p.now().Sub(p.reported) < reportEvery && onWay > 0 {
		return
	}
	p.count.draining, p.reported = onWay, p.now()
	p.metrics.objects.WithLabelValues(p.ring.Name, "draining").Set(float64(onWay))
	p.findings.change(p.ring.Name, func(f *finding) { f.count.draining = onWay })
}

// reportEvery is how often reportMoves reports a changed number.
const reportEvery = 2 * time.Second

// balanced returns the condition on whether all objects are with their shards.
func (p *pass) balanced() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse}
	switch {
	case p.failures.number > 0:
		c.Reason = v1alpha1.ReasonResyncFailed
		c.Message = fmt.Sprintf("%d objects could not be brought where they are to be, which is tried again: %s: %v.", p.failures.number, p.failures.what, p.failures.err)
	case p.count.unassigned > 0 && len(p.shards.Shards()) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoShards, fmt.Sprintf("%d objects wait for a shard.", p.count.unassigned)
	case p.count.moving > 0:
		c.Reason, c.Message = v1alpha1.ReasonMoving, fmt.Sprintf("%d objects are to go to other shards, %d of them at once.", p.count.moving, p.ring.Spec.MaxConcurrentMoves)
	case p.left > 0:
		c.Reason, c.Message = v1alpha1.ReasonMoving, fmt.Sprintf("%d objects wait until it is certain that their shards do not work any more.", p.left)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonBalanced, "All objects are with the shards that are to have them."
	}
	c.Message = clusters.Shorten(c.Message, maxMessage)
	return c
}

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 4096

// unbalanced returns the condition for a pass that failed.
func unbalanced(err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonResyncFailed,
		Message: clusters.Shorten(fmt.Sprintf("Not all objects could be looked at, which is tried again: %v.", err), maxMessage),
	}
}
