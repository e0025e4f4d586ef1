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

// finding is what passes have found out of a ring last.
type finding struct {
	// at is when its objects were counted; zero is not yet.
	at    time.Time
	count count
	// by are the shards that they were counted by.
	by *ring.Shards
	// balanced is the condition; without a type nothing is known yet.
	balanced metav1.Condition
	inspection
}

// inspection is what of a ring's spec was found not to be possible.
type inspection struct {
	generation int64
	problems   []problem
	inspected  time.Time
}

// findings are those of all rings.
type findings struct {
	mu sync.Mutex
	of map[string]finding
	// tell is called for a ring of which something new was found.
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

// report takes down what all objects were found to be. If some were not found, it is still unknown how many there are.
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

// reportMoves takes down how many objects are on their way, while they are.
func (p *pass) reportMoves() {
	onWay := int64(len(p.moves.onWay))
	if onWay == p.count.draining || p.now().Sub(p.reported) < reportEvery && onWay > 0 {
		return
	}
	p.count.draining, p.reported = onWay, p.now()
	p.metrics.objects.WithLabelValues(p.ring.Name, "draining").Set(float64(onWay))
	p.findings.change(p.ring.Name, func(f *finding) { f.count.draining = onWay })
}

// reportEvery is how often it is told how many are on their way.
const reportEvery = 2 * time.Second

// balanced says whether all objects are where they are to be.
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

// maxMessage is how much a condition says at most.
const maxMessage = 4096

// unbalanced says that a pass has come to no end.
func unbalanced(err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonResyncFailed,
		Message: clusters.Shorten(fmt.Sprintf("Not all objects could be looked at, which is tried again: %v.", err), maxMessage),
	}
}
