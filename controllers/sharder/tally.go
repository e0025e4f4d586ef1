package sharder

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxDead is of how many shards that are gone it is told: anybody can label objects as of shards that never were.
const maxDead = 20

// tally counts objects of one of the ring's resources where they are now.
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

// account takes in what has become of a plan.
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

// The causes of assignments.
const (
	// causeUnassigned is that no shard worked on an object.
	causeUnassigned = "unassigned"
	// causeGone is that its shard is gone.
	causeGone = "shard_gone"
	// causeController is that the object that controls it is there.
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

// tellOfTheDead says how many objects of shards that are gone were given to others.
func (p *pass) tellOfTheDead() {
	for _, shard := range slices.Sorted(maps.Keys(p.from)) {
		p.events.Eventf(p.ring, nil, corev1.EventTypeNormal, "ShardGone", "Assign", "Shard %s does not work any more: %d objects that it had were given to others.",
			shard, p.from[shard])
	}
	clear(p.from)
}
