package sharder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

const (
	// loadDivisor bounds the load on the API server: checking moves takes at most one in so many parts of the time.
	loadDivisor = 4
	// maxMoved is how many objects may have moved, and dependentsInterval how long to wait, before the objects that they control follow.
	maxMoved           = 2000
	dependentsInterval = 2 * time.Second
)

// moveObjects asks shards to release objects that belong to other shards, a limited number at once, and waits until all are released.
func (p *pass) moveObjects(ctx context.Context) error {
	p.began = p.now()
	p.lastDependents.at = p.began
	if err := p.pollMoves(ctx, true); err != nil {
		return err
	}
	var failed []error
	for _, main := range p.readResources() {
		err := p.assignObjects(ctx, main, p.load, p.drainObjects)
		if endsPass(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	for len(p.moves.inProgress) > 0 {
		if err := p.waitForMoves(ctx); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, p.assignMovedDependents(ctx))...)
}

// drainObjects asks shards to release objects, as soon as earlier moves make room. It skips shards that do not work now: they will come back, or
// be dead, and a dead shard does not need to be asked.
func (p *pass) drainObjects(ctx context.Context, plans []*plan) error {
	var waiting []*plan
	states := p.states()
	for _, x := range plans {
		from := p.placementOf(x.object).Shard
		if x.action == ring.Await {
			p.moves.setDestination(idOf(x.resource, x.object), x.shard)
		}
		if x.action != ring.Drain || x.outcome == notFound {
			continue
		}
		if states[from] != v1alpha1.ShardReady {
			p.deferred++
			continue
		}
		waiting = append(waiting, x)
	}
	for len(waiting) > 0 {
		room := int(p.ring.Spec.MaxConcurrentMoves) - len(p.moves.inProgress)
		if room <= 0 {
			if err := p.waitForMoves(ctx); err != nil {
				return err
			}
			continue
		}
		batch := waiting[:min(room, len(waiting))]
		for _, x := range batch {
			x.mayDrain = true
		}
		err := p.executePlans(ctx, batch)
		for _, x := range batch {
			if x.outcome == done && x.action == ring.Drain {
				p.moves.track(idOf(x.resource, x.object), x.object.UID, x.before.Shard, p.now())
				p.moves.setDestination(idOf(x.resource, x.object), x.shard)
			}
		}
		if err != nil {
			return fmt.Errorf("drain %s: %w", batch[0].resource, err)
		}
		waiting = waiting[len(batch):]
	}
	if p.now().Sub(p.lastPoll.at) > p.pollInterval() {
		return p.pollMoves(ctx, false)
	}
	return nil
}

// pollInterval returns how long to wait between checks of the moves, because each check is work for the API server.
func (p *pass) pollInterval() time.Duration { return max(p.timing.poll, loadDivisor*p.lastPoll.took) }

func (p *pass) waitForMoves(ctx context.Context) error {
	if err := p.wait(ctx, p.pollInterval()); err != nil {
		return err
	}
	return p.pollMoves(ctx, false)
}

// pollMoves finds out which moves have completed, and acts on that. all also includes the moves that a former leader has left.
func (p *pass) pollMoves(ctx context.Context, includeUnknown bool) error {
	began := p.now()
	draining := map[id]bool{}
	for _, main := range p.readResources() {
		if !includeUnknown && !p.moves.hasMovesOf(main) {
			continue
		}
		err := p.forEachPage(ctx, main, v1alpha1.LabelDrain(p.ring.Name), func(page []object) error {
			for i := range page {
				o, key := &page[i], idOf(main, &page[i])
				from := p.placementOf(o).Shard
				if p.shards.IsAvailable(from) && p.moves.track(key, o.UID, from, began) {
					draining[key] = true
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := p.completeMoves(ctx, draining); err != nil {
		return err
	}
	p.revoke(ctx)
	p.lastPoll = lastRun{p.now(), p.now().Sub(began)}
	p.reportMoves()
	if interval := max(dependentsInterval, loadDivisor*p.lastDependents.took); len(p.moved) >= maxMoved || p.now().Sub(p.lastDependents.at) >= interval {
		if err := p.assignMovedDependents(ctx); err != nil {
			return err
		}
	}
	if p.now().Sub(p.began) > time.Duration(p.ring.Spec.ResyncPeriodSeconds)*time.Second {
		return errOverdue
	}
	return nil
}
