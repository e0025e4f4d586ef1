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
	// share bounds the load on the API server: checking moves takes at most one in so many parts of the time.
	share = 4
	// maxLanded is how many objects may have moved, and followEvery how long to wait, before the objects that they control follow.
	maxLanded   = 2000
	followEvery = 2 * time.Second
)

// move asks shards to release objects that belong to other shards, a limited number at once, and waits until all are released.
func (p *pass) move(ctx context.Context) error {
	p.began = p.now()
	p.followed.at = p.began
	if err := p.poll(ctx, true); err != nil {
		return err
	}
	var failed []error
	for _, main := range p.within() {
		err := p.walk(ctx, main, p.load, p.drain)
		if isEnd(ctx, err) {
			return err
		}
		failed = append(failed, err)
	}
	for len(p.moves.onWay) > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, p.followLanded(ctx))...)
}

// drain asks shards to release objects, as soon as earlier moves make room. It skips shards that do not work now: they will come back, or
// be dead, and a dead shard does not need to be asked.
func (p *pass) drain(ctx context.Context, plans []*plan) error {
	var waiting []*plan
	states := p.states()
	for _, x := range plans {
		from := p.placementOf(x.object).Shard
		if x.action == ring.Await {
			p.moves.send(idOf(x.of, x.object), x.shard)
		}
		if x.action != ring.Drain || x.outcome == gone {
			continue
		}
		if states[from] != v1alpha1.ShardReady {
			p.left++
			continue
		}
		waiting = append(waiting, x)
	}
	for len(waiting) > 0 {
		room := int(p.ring.Spec.MaxConcurrentMoves) - len(p.moves.onWay)
		if room <= 0 {
			if err := p.await(ctx); err != nil {
				return err
			}
			continue
		}
		some := waiting[:min(room, len(waiting))]
		for _, x := range some {
			x.mayDrain = true
		}
		err := p.settleAll(ctx, some)
		for _, x := range some {
			if x.outcome == done && x.action == ring.Drain {
				p.moves.add(idOf(x.of, x.object), x.object.UID, x.had.Shard, p.now())
				p.moves.send(idOf(x.of, x.object), x.shard)
			}
		}
		if err != nil {
			return fmt.Errorf("drain %s: %w", some[0].of, err)
		}
		waiting = waiting[len(some):]
	}
	if p.now().Sub(p.polled.at) > p.pause() {
		return p.poll(ctx, false)
	}
	return nil
}

// pause returns how long to wait between checks of the moves, because each check is work for the API server.
func (p *pass) pause() time.Duration { return max(p.tempo.poll, share*p.polled.took) }

func (p *pass) await(ctx context.Context) error {
	if err := p.wait(ctx, p.pause()); err != nil {
		return err
	}
	return p.poll(ctx, false)
}

// poll finds out which moves have completed, and acts on that. all also includes the moves that a former leader has left.
func (p *pass) poll(ctx context.Context, all bool) error {
	began := p.now()
	underway := map[id]bool{}
	for _, main := range p.within() {
		if !all && !p.moves.of(main) {
			continue
		}
		err := p.pages(ctx, main, v1alpha1.LabelDrain(p.ring.Name), func(page []object) error {
			for i := range page {
				o, of := &page[i], idOf(main, &page[i])
				from := p.placementOf(o).Shard
				if p.shards.IsAvailable(from) && p.moves.add(of, o.UID, from, began) {
					underway[of] = true
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := p.land(ctx, underway); err != nil {
		return err
	}
	p.revoke(ctx)
	p.polled = lap{p.now(), p.now().Sub(began)}
	p.reportMoves()
	if due := max(followEvery, share*p.followed.took); len(p.landed) >= maxLanded || p.now().Sub(p.followed.at) >= due {
		if err := p.followLanded(ctx); err != nil {
			return err
		}
	}
	if p.now().Sub(p.began) > time.Duration(p.ring.Spec.ResyncPeriodSeconds)*time.Second {
		return errOverdue
	}
	return nil
}
