package sharder

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// reporter reports the tally of a pass: in the status by way of the results, in the gauges of the metrics, and in events.
type reporter struct {
	tally   *tally
	ring    *v1alpha1.ClusterRing
	shards  *ring.Shards
	results *passResults
	metrics *Metrics
	events  events.EventRecorder
	now     func() time.Time

	// reported is when the counts or the moves were last reported.
	reported time.Time
}

// reportInterval is how often reportMoves reports a changed number.
const reportInterval = 2 * time.Second

// emitShardGone emits events on how many objects of dead shards were given to others.
func (r *reporter) emitShardGone() {
	for _, shard := range slices.Sorted(maps.Keys(r.tally.takenFrom)) {
		r.events.Eventf(r.ring, nil, corev1.EventTypeNormal, "ShardGone", "Assign", "Shard %s has stopped: the sharder assigned %d of its objects to other shards.",
			shard, r.tally.takenFrom[shard])
	}
	clear(r.tally.takenFrom)
}

// reportCounts records the counts of a pass. If the pass failed for some objects, the counts stay unknown.
func (r *reporter) reportCounts(err error) {
	if err != nil {
		r.results.update(r.ring.Name, func(f *passResult) { f.balanced = failedCondition(err) })
		return
	}
	r.metrics.setCounts(r.ring.Name, r.tally.count)
	r.results.update(r.ring.Name, func(f *passResult) {
		f.at, f.shards, f.count, f.balanced = r.now(), r.shards, r.tally.count, r.balancedCondition()
	})
	r.reported = r.now()
}

// reportMoves records how many objects are being moved.
func (r *reporter) reportMoves(inProgress int64) {
	if inProgress == r.tally.count.draining || r.now().Sub(r.reported) < reportInterval && inProgress > 0 {
		return
	}
	r.tally.count.draining, r.reported = inProgress, r.now()
	r.metrics.objects.WithLabelValues(r.ring.Name, "draining").Set(float64(inProgress))
	r.results.update(r.ring.Name, func(f *passResult) { f.count.draining = inProgress })
}

// balancedCondition returns the condition on whether all objects are with their shards.
func (r *reporter) balancedCondition() metav1.Condition {
	c, t := metav1.Condition{Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse}, r.tally
	switch {
	case t.failures.number > 0:
		c.Reason = v1alpha1.ReasonResyncFailed
		c.Message = fmt.Sprintf("The sharder could not assign %s and retries: %s: %v.",
			printable.Count(t.failures.number, "object"), t.failures.subject, t.failures.err)
	case t.count.unassigned > 0 && len(r.shards.Shards()) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoShards, fmt.Sprintf("No shard is available for %s.", printable.Count(int(t.count.unassigned), "object"))
	case t.count.moving > 0:
		c.Reason = v1alpha1.ReasonMoving
		c.Message = fmt.Sprintf("The sharder moves %s to other shards, at most %d at a time.",
			printable.Count(int(t.count.moving), "object"), r.ring.Spec.MaxConcurrentMoves)
	case t.deferred > 0:
		c.Reason = v1alpha1.ReasonMoving
		c.Message = fmt.Sprintf("The sharder assigns %s when it has confirmed that their shards have stopped.", printable.Count(t.deferred, "object"))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonBalanced, "All objects are assigned to their shards."
	}
	c.Message = clusters.Truncate(c.Message, maxMessage)
	return c
}

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 4096

func failedCondition(err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonResyncFailed,
		Message: clusters.Truncate(fmt.Sprintf("The sharder could not read all objects and retries: %v.", err), maxMessage),
	}
}
