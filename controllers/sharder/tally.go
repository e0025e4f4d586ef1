package sharder

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxDead bounds how many dead shards events report: any user can label objects with shards that never existed.
const maxDead = 20

// tally counts objects of one of the ring's resources by their current placement.
func (p *pass) tally(plans []*plan) {
	for _, x := range plans {
		if x.outcome == gone {
			continue
		}
		has := p.placementOf(x.object)
		switch {
		case p.shards.IsAvailable(has.Shard):
			p.count.assigned++
			p.count.of[has.Shard]++
			if has.Draining {
				p.count.draining++
			}
		case x.isMember:
			p.count.unassigned++
		}
		if x.action == ring.Drain || x.action == ring.Await {
			p.count.moving++
		}
		if byName, _ := p.shards.Owner(p.nameKey(x.of, x.object.Namespace, x.object.Name)); has.Shard != byName {
			p.strays.add(idOf(x.of, x.object))
		}
	}
}

// account records the result of a plan.
func (p *pass) account(x *plan) {
	switch x.outcome {
	case done:
		p.written++
		if x.isWrite() {
			delete(p.moves.onWay, idOf(x.of, x.object))
		}
		if x.action == ring.Assign {
			p.metrics.assignments.WithLabelValues(p.ring.Name, p.causeOf(x)).Inc()
		}
	case held, asked:
		p.left++
	case failed:
		p.left++
		p.failures.add(idOf(x.of, x.object).String(), x.err)
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
	case len(x.of.mains) > 0:
		return causeController
	case x.had.Shard == "":
		return causeUnassigned
	}
	if _, known := p.from[x.had.Shard]; known || len(p.from) < maxDead {
		p.from[x.had.Shard]++
	}
	return causeGone
}

// tellOfTheDead emits events on how many objects of dead shards were given to others.
func (p *pass) tellOfTheDead() {
	for _, shard := range slices.Sorted(maps.Keys(p.from)) {
		p.events.Eventf(p.ring, nil, corev1.EventTypeNormal, "ShardGone", "Assign", "Shard %s does not work any more: %d objects that it had were given to others.",
			shard, p.from[shard])
	}
	clear(p.from)
}
