package sharder

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxTrackedMoves bounds how many moves a pass follows: as many as a ClusterRing allows. Any user can label more objects than that.
const maxTrackedMoves = 10_000

// moves are the objects of a ring that shards were asked to release. This process times them on its own clock, from when it first observed
// them.
type moves struct {
	inProgress map[id]move
	// shards has for each shard since when it has been able to respond.
	shards map[string]readySince
}

// move is an object that a shard was asked to release.
type move struct {
	uid  types.UID
	from string
	// to is the shard that should have the object; empty means not decided in this pass.
	to    string
	since time.Time
}

// readySince is since when one incarnation of a shard has been ready.
type readySince struct {
	holder string
	since  time.Time
}

func newMoves() *moves { return &moves{inProgress: map[id]move{}, shards: map[string]readySince{}} }

// retain keeps the moves that continue in another pass: those of objects of these resources. It resets their destinations.
func (m *moves) retain(mains []*resource) {
	for key, move := range m.inProgress {
		move.to = ""
		m.inProgress[key] = move
		if !slices.ContainsFunc(mains, func(main *resource) bool { return main.GroupResource == key.GroupResource }) {
			delete(m.inProgress, key)
		}
	}
}

// setDestination records the destination of an object that is being moved.
func (m *moves) setDestination(key id, to string) {
	if move, ok := m.inProgress[key]; ok {
		move.to = to
		m.inProgress[key] = move
	}
}

// hasMovesOf reports whether objects of a resource are being moved.
func (m *moves) hasMovesOf(main *resource) bool {
	for key := range m.inProgress {
		if key.GroupResource == main.GroupResource {
			return true
		}
	}
	return false
}

// track records that an object is being moved, and reports whether the move is followed.
func (m *moves) track(key id, uid types.UID, from string, now time.Time) bool {
	if stored, ok := m.inProgress[key]; ok && stored.uid == uid && stored.from == from {
		return true
	}
	if _, ok := m.inProgress[key]; !ok && len(m.inProgress) >= maxTrackedMoves {
		return false
	}
	m.inProgress[key] = move{uid: uid, from: from, since: now}
	return true
}

// observe records the states of the shards that have to release objects. A shard that was not ready, or that is another incarnation than
// before, has the full time from now on.
func (m *moves) observe(states map[string]v1alpha1.ShardState, holder func(shard string) string, now time.Time) {
	leaving := map[string]readySince{}
	for _, move := range m.inProgress {
		if _, seen := leaving[move.from]; seen {
			continue
		}
		has := holder(move.from)
		stored, ok := m.shards[move.from]
		// A shard that stopped and is to come back cannot respond.
		if isReady := states[move.from] == v1alpha1.ShardReady && has != move.from+"_"; !ok || stored.holder != has || !isReady {
			stored = readySince{has, now}
		}
		leaving[move.from] = stored
	}
	m.shards = leaving
}

// overdue returns, for each shard that was too slow, one object that it did not release within limit.
func (m *moves) overdue(limit time.Duration, now time.Time) map[string]id {
	late := map[string]id{}
	for key, move := range m.inProgress {
		since := m.shards[move.from].since
		if move.since.After(since) {
			since = move.since
		}
		if now.Sub(since) >= limit {
			late[move.from] = key
		}
	}
	return late
}
