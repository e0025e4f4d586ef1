package sharder

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxOnWay bounds how many moves a pass follows: as many as a ClusterRing allows. Any user can label more objects than that.
const maxOnWay = 10_000

// moves are the objects of a ring that shards were asked to release. This process times them on its own clock, from when it first observed
// them.
type moves struct {
	onWay map[id]move
	// shards has for each shard since when it has been able to respond.
	shards map[string]ready
}

// move is an object that a shard was asked to release.
type move struct {
	uid  types.UID
	from string
	// to is the shard that should have the object; empty means not decided in this pass.
	to    string
	since time.Time
}

// ready is since when one incarnation of a shard has been ready.
type ready struct {
	holder string
	since  time.Time
}

func newMoves() *moves { return &moves{onWay: map[id]move{}, shards: map[string]ready{}} }

// begin keeps the moves that continue in another pass: those of objects of these resources. It resets their destinations.
func (m *moves) begin(mains []*resource) {
	for of, move := range m.onWay {
		move.to = ""
		m.onWay[of] = move
		if !slices.ContainsFunc(mains, func(main *resource) bool { return main.GroupResource == of.GroupResource }) {
			delete(m.onWay, of)
		}
	}
}

// send records the destination of an object that is being moved.
func (m *moves) send(of id, to string) {
	if move, ok := m.onWay[of]; ok {
		move.to = to
		m.onWay[of] = move
	}
}

// of reports whether objects of a resource are being moved.
func (m *moves) of(main *resource) bool {
	for of := range m.onWay {
		if of.GroupResource == main.GroupResource {
			return true
		}
	}
	return false
}

// add records that an object is being moved, and reports whether the move is followed.
func (m *moves) add(of id, uid types.UID, from string, now time.Time) bool {
	if known, ok := m.onWay[of]; ok && known.uid == uid && known.from == from {
		return true
	}
	if _, ok := m.onWay[of]; !ok && len(m.onWay) >= maxOnWay {
		return false
	}
	m.onWay[of] = move{uid: uid, from: from, since: now}
	return true
}

// observe records the states of the shards that have to release objects. A shard that was not ready, or that is another incarnation than
// before, has the full time from now on.
func (m *moves) observe(states map[string]v1alpha1.ShardState, holder func(shard string) string, now time.Time) {
	leaving := map[string]ready{}
	for _, move := range m.onWay {
		if _, seen := leaving[move.from]; seen {
			continue
		}
		has := holder(move.from)
		known, ok := m.shards[move.from]
		// A shard that stopped and is to come back cannot respond.
		if isReady := states[move.from] == v1alpha1.ShardReady && has != move.from+"_"; !ok || known.holder != has || !isReady {
			known = ready{has, now}
		}
		leaving[move.from] = known
	}
	m.shards = leaving
}

// overdue returns, for each shard that was too slow, one object that it did not release within limit.
func (m *moves) overdue(limit time.Duration, now time.Time) map[string]id {
	late := map[string]id{}
	for of, move := range m.onWay {
		since := m.shards[move.from].since
		if move.since.After(since) {
			since = move.since
		}
		if now.Sub(since) >= limit {
			late[move.from] = of
		}
	}
	return late
}
