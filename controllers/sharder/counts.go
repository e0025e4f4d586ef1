package sharder

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxReportedShards bounds how many dead shards events report: any user can label objects with shards that never existed.
const maxReportedShards = 20

// countPlacements counts objects of one of the ring's resources by their current placement.
func (p *pass) countPlacements(plans []*plan) {
	for _, x := range plans {
		if x.outcome == notFound {
			continue
		}
		has := p.placementOf(x.object)
		switch {
		case p.shards.IsAvailable(has.Shard):
			p.count.assigned++
			p.count.byShard[has.Shard]++
			if has.Draining {
				p.count.draining++
			}
		case x.isMember:
			p.count.unassigned++
		}
		if x.action == ring.Drain || x.action == ring.Await {
			p.count.moving++
		}
		if byName, _ := p.shards.Owner(p.nameKey(x.resource, x.object.Namespace, x.object.Name)); has.Shard != byName {
			p.displaced.add(idOf(x.resource, x.object))
		}
	}
}

// recordOutcome records the result of a plan.
func (p *pass) recordOutcome(x *plan) {
	switch x.outcome {
	case done:
		p.written++
		if x.isWrite() {
			delete(p.moves.inProgress, idOf(x.resource, x.object))
		}
		if x.action == ring.Assign {
			p.metrics.assignments.WithLabelValues(p.ring.Name, p.causeOf(x)).Inc()
		}
	case blocked, drainRequested:
		p.deferred++
	case failed:
		p.deferred++
		p.failures.add(idOf(x.resource, x.object).String(), x.err)
		p.metrics.failed.WithLabelValues(p.ring.Name).Inc()
	}
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

func (p *pass) causeOf(x *plan) string {
	switch {
	case len(x.resource.mains) > 0:
		return causeController
	case x.before.Shard == "":
		return causeUnassigned
	}
	if _, exists := p.takenFrom[x.before.Shard]; exists || len(p.takenFrom) < maxReportedShards {
		p.takenFrom[x.before.Shard]++
	}
	return causeGone
}

// emitShardGone emits events on how many objects of dead shards were given to others.
func (p *pass) emitShardGone() {
	for _, shard := range slices.Sorted(maps.Keys(p.takenFrom)) {
		p.events.Eventf(p.ring, nil, corev1.EventTypeNormal, "ShardGone", "Assign", "Shard %s has stopped: the sharder assigned %d of its objects to other shards.",
			shard, p.takenFrom[shard])
	}
	clear(p.takenFrom)
}
