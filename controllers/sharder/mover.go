package sharder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// loadDivisor bounds the load on the API server: checking moves takes at most one in so many parts of the time.
const loadDivisor = 4

// mover moves objects that are with another shard than they should be: it asks the shard to release an object, waits for that, and makes
// certain that another shard then has the object. What those objects control follows.
type mover struct {
	reader     *reader
	planner    planner
	assigner   *assigner
	writer     *writer
	dependents *dependents
	revoker    *revoker
	tally      *tally
	reporter   *reporter
	clock      clock

	// moves are kept from one pass to the next.
	moves *moves
	round moveRound
}

// moveRound is the work of a mover in one pass.
type moveRound struct {
	// mains are the resources of which all objects have been read, and load is the number of objects per shard, if it is bounded.
	mains []*resource
	load  ring.Load
	// began is when the moves began. lastPoll is when they were last checked, and how long that took.
	began    time.Time
	lastPoll lastRun
}

// moveObjects asks shards to release objects that belong to other shards, a limited number at once, and waits until all are released.
func (m *mover) moveObjects(ctx context.Context, mains []*resource, load ring.Load) error {
	m.round = moveRound{mains: mains, load: load, began: m.clock.now()}
	m.dependents.lastMoved.at = m.round.began
	if err := m.pollMoves(ctx, true); err != nil {
		return err
	}
	var failed []error
	for _, main := range m.round.mains {
		err := m.assigner.assign(ctx, main, m.round.load, m.drainObjects)
		if endsPass(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	for len(m.moves.inProgress) > 0 {
		if err := m.waitForMoves(ctx); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, m.dependents.followMoved(ctx))...)
}

// drainObjects asks shards to release objects, as soon as earlier moves make room. It skips shards that do not work now: they will come back, or
// be dead, and a dead shard does not need to be asked.
func (m *mover) drainObjects(ctx context.Context, plans []*plan) error {
	var waiting []*plan
	states := m.reader.shardStates()
	for _, x := range plans {
		from := m.planner.placementOf(x.object).Shard
		if x.action == ring.Await {
			m.moves.setDestination(idOf(x.resource, x.object), x.shard)
		}
		if x.action != ring.Drain || x.outcome == notFound {
			continue
		}
		if states[from] != v1alpha1.ShardReady {
			m.tally.deferred++
			continue
		}
		waiting = append(waiting, x)
	}
	for len(waiting) > 0 {
		room := int(m.planner.ring.Spec.MaxConcurrentMoves) - len(m.moves.inProgress)
		if room <= 0 {
			if err := m.waitForMoves(ctx); err != nil {
				return err
			}
			continue
		}
		batch := waiting[:min(room, len(waiting))]
		for _, x := range batch {
			x.mayDrain = true
		}
		err := m.writer.executePlans(ctx, batch)
		for _, x := range batch {
			if x.outcome == done && x.action == ring.Drain {
				m.moves.track(idOf(x.resource, x.object), x.object.UID, x.before.Shard, m.clock.now())
				m.moves.setDestination(idOf(x.resource, x.object), x.shard)
			}
		}
		if err != nil {
			return fmt.Errorf("drain %s: %w", batch[0].resource, err)
		}
		waiting = waiting[len(batch):]
	}
	if m.clock.now().Sub(m.round.lastPoll.at) > m.pollInterval() {
		return m.pollMoves(ctx, false)
	}
	return nil
}

// pollInterval returns how long to wait between checks of the moves, because each check is work for the API server.
func (m *mover) pollInterval() time.Duration {
	return max(m.clock.timing.poll, loadDivisor*m.round.lastPoll.took)
}

func (m *mover) waitForMoves(ctx context.Context) error {
	if err := m.clock.wait(ctx, m.pollInterval()); err != nil {
		return err
	}
	return m.pollMoves(ctx, false)
}

// pollMoves finds out which moves have completed, and acts on that. includeUnknown also includes the moves that a former leader has left.
func (m *mover) pollMoves(ctx context.Context, includeUnknown bool) error {
	began := m.clock.now()
	draining := map[id]bool{}
	for _, main := range m.round.mains {
		if !includeUnknown && !m.moves.hasMovesOf(main) {
			continue
		}
		err := m.reader.forEachPage(ctx, main, v1alpha1.LabelDrain(m.planner.ring.Name), func(page []object) error {
			for i := range page {
				o, key := &page[i], idOf(main, &page[i])
				from := m.planner.placementOf(o).Shard
				if m.planner.shards.IsAvailable(from) && m.moves.track(key, o.UID, from, began) {
					draining[key] = true
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := m.completeMoves(ctx, draining); err != nil {
		return err
	}
	m.revoker.revoke(ctx)
	m.round.lastPoll = lastRun{m.clock.now(), m.clock.now().Sub(began)}
	m.reporter.reportMoves(int64(len(m.moves.inProgress)))
	if m.dependents.isFollowDue() {
		if err := m.dependents.followMoved(ctx); err != nil {
			return err
		}
	}
	if m.clock.now().Sub(m.round.began) > time.Duration(m.planner.ring.Spec.ResyncPeriodSeconds)*time.Second {
		return errOverdue
	}
	return nil
}
