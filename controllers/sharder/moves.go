package sharder

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxOnWay bounds how many objects are followed on their way: as many as a ClusterRing allows. Anybody can label more of them.
const maxOnWay = 10_000

// moves are the objects of a ring that shards were asked to let go of. They are timed on the clock of this process, from when it has
// seen them first.
type moves struct {
	onWay map[id]move
	// shards is since when those could have answered.
	shards map[string]ready
}

// move is an object on its way.
type move struct {
	uid  types.UID
	from string
	// to is the shard that is to have it; empty is not decided in this pass.
	to    string
	since time.Time
}

// ready is since when one incarnation of a shard is.
type ready struct {
	holder string
	since  time.Time
}

func newMoves() *moves { return &moves{onWay: map[id]move{}, shards: map[string]ready{}} }

// begin leaves what goes on in another pass: objects of these resources, wherever they go.
func (m *moves) begin(mains []*resource) {
	for of, move := range m.onWay {
		move.to = ""
		m.onWay[of] = move
		if !slices.ContainsFunc(mains, func(main *resource) bool { return main.GroupResource == of.GroupResource }) {
			delete(m.onWay, of)
		}
	}
}

// send takes in where an object goes that is on its way.
func (m *moves) send(of id, to string) {
	if move, ok := m.onWay[of]; ok {
		move.to = to
		m.onWay[of] = move
	}
}

// of tells whether objects of a resource are on their way.
func (m *moves) of(main *resource) bool {
	for of := range m.onWay {
		if of.GroupResource == main.GroupResource {
			return true
		}
	}
	return false
}

// add takes in that an object is on its way, and returns whether it is followed.
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

// observe takes in what the shards are that objects are to leave. Whoever has been late, or is another incarnation than before, has the
// whole time from now on.
func (m *moves) observe(states map[string]v1alpha1.ShardState, holder func(shard string) string, now time.Time) {
	leaving := map[string]ready{}
	for _, move := range m.onWay {
		if _, seen := leaving[move.from]; seen {
			continue
		}
		has := holder(move.from)
		known, ok := m.shards[move.from]
		// One that has stopped and is to come back cannot answer.
		if isReady := states[move.from] == v1alpha1.ShardReady && has != move.from+"_"; !ok || known.holder != has || !isReady {
			known = ready{has, now}
		}
		leaving[move.from] = known
	}
	m.shards = leaving
}

// overdue are the objects, one for each shard, that it has not let go of in time.
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
