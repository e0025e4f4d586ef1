package sharder

import "github.com/breakwater-k8s/breakwater/internal/sharding/ring"

// maxReportedShards bounds how many dead shards events report: any user can label objects with shards that never existed.
const maxReportedShards = 20

// tally counts what a pass finds and what it does, in its fields and in the counters of the metrics. It is not safe for
// concurrent use: the writer calls it when its parallel writes have ended.
type tally struct {
	planner planner
	metrics *Metrics

	count count
	// listed is the number of objects of the ring's resources, whether or not they belong to the ring.
	listed int64
	// takenFrom is the number of objects that were taken from each dead shard.
	takenFrom map[string]int64
	// written is the number of objects that were written, deferred the number that was left to another pass.
	written, deferred int
	failures          failures
}

// count is the number of objects by state; controlled objects are not counted.
type count struct {
	assigned, draining, unassigned int64
	byShard                        map[string]int64
	// moving is the number of objects that belong to another shard than the one that has them.
	moving int64
}

// members is the number of objects that belong to the ring.
func (c count) members() int64 { return c.assigned + c.unassigned }

// failures are the failed writes; subject and err are of the first one.
type failures struct {
	number  int
	subject string
	err     error
}

func (f *failures) add(subject string, err error) {
	if f.number++; f.number == 1 {
		f.subject, f.err = subject, err
	}
}

func newTally(planner planner, metrics *Metrics) *tally {
	return &tally{planner: planner, metrics: metrics, count: count{byShard: map[string]int64{}}, takenFrom: map[string]int64{}}
}

// countPlacements counts objects of one of the ring's resources by their current placement.
func (t *tally) countPlacements(plans []*plan) {
	t.listed += int64(len(plans))
	for _, x := range plans {
		if x.outcome == notFound {
			continue
		}
		has := t.planner.placementOf(x.object)
		switch {
		case t.planner.shards.IsAvailable(has.Shard):
			t.count.assigned++
			t.count.byShard[has.Shard]++
			if has.Draining {
				t.count.draining++
			}
		case x.isMember:
			t.count.unassigned++
		}
		if x.action == ring.Drain || x.action == ring.Await {
			t.count.moving++
		}
	}
}

func (t *tally) recordOutcome(x *plan) {
	switch x.outcome {
	case done:
		t.written++
		if x.action == ring.Assign {
			t.metrics.assignments.WithLabelValues(t.planner.ring.Name, t.causeOf(x)).Inc()
		}
	case blocked, drainRequested:
		t.deferred++
	case failed:
		t.deferred++
		t.failures.add(idOf(x.resource, x.object).String(), x.err)
		t.metrics.failed.WithLabelValues(t.planner.ring.Name).Inc()
	}
}

// recordMove records the result of a move, for which the shard has written the object.
func (t *tally) recordMove(result string) {
	t.written++
	t.metrics.moves.WithLabelValues(t.planner.ring.Name, result).Inc()
}

// These are the causes of assignments.
const (
	// causeUnassigned means that no shard worked on an object.
	causeUnassigned = "unassigned"
	// causeGone means that its shard is dead.
	causeGone = "shard_gone"
	// causeController means that the shard has the object's controller.
	causeController = "controller"
)

func (t *tally) causeOf(x *plan) string {
	switch {
	case len(x.resource.mains) > 0:
		return causeController
	case x.before.Shard == "":
		return causeUnassigned
	}
	if _, exists := t.takenFrom[x.before.Shard]; exists || len(t.takenFrom) < maxReportedShards {
		t.takenFrom[x.before.Shard]++
	}
	return causeGone
}
