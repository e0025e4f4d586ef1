package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const (
	// lookAgain is the interval at which a shard checks which slots the shards have when it was notified of no change.
	lookAgain = 5 * time.Second
	// gather is how long it waits after a notification, so that it handles several changes at once.
	gather = 10 * time.Millisecond
)

// keepShare releases slots that other shards are to have, claims slots that this shard is to have, and reports, until ctx ends.
func (t *term) keepShare(ctx context.Context) {
	again := time.NewTicker(min(lookAgain, t.options.Heartbeat))
	defer again.Stop()
	var reported time.Time
	for {
		if err := t.rebalance(ctx); err != nil && ctx.Err() == nil {
			t.log.Error(err, "Slots stay where they are")
		}
		if now := t.monotonic(); t.whole.Swap(false) || !now.Before(reported.Add(t.options.Heartbeat)) {
			reported = now
			t.reportOnce(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-t.poke:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather):
		}
		drain(again.C)
		drain(t.poke)
	}
}

// drain discards a notification that arrived in the meantime, which the coming round covers.
func drain[T any](from <-chan T) {
	select {
	case <-from:
	default:
	}
}

// rebalance releases and claims slots until the shard has those that it is to have.
func (t *term) rebalance(ctx context.Context) error {
	shards, known := t.options.Membership.Shards(ctx)
	if !known || !shards.IsAvailable(t.options.Membership.Name()) {
		return nil // the slots that the other shards are to have are unknown too
	}
	cell, err := t.readShare(ctx)
	if err != nil {
		return err
	}
	wanted, recorded := slot.Shares(shards)[t.options.Membership.Name()], t.recorded(cell)
	has, closed := t.tenure.all()
	// The shard gives up slots that the record does not assign to it, slots with a later epoch, and slots that it is not to have.
	if stop := has.Minus(recorded).Or(closed).Or(has.Minus(wanted)); !stop.Empty() {
		t.giveUp(stop)
		has = has.Minus(stop)
	}
	if has == wanted && recorded == wanted || !t.tenancy.Held() {
		return nil
	}
	return t.claim(ctx, shards, has, wanted)
}

// recorded returns the slots that the Cell records for this incarnation.
func (t *term) recorded(cell *v1alpha1.Cell) slot.Set {
	return slotsOf(cell, t.options.Membership.Name(), t.tenancy.Holder)
}

// readShare reads the Cell for a report and sets its seen version. It ends the term if the term's knowledge is void.
func (t *term) readShare(ctx context.Context) (*v1alpha1.Cell, error) {
	cell := &v1alpha1.Cell{}
	if err := t.live.Get(ctx, client.ObjectKey{Name: t.options.Cell}, cell); err != nil {
		return nil, fmt.Errorf("read Cell %s: %w", t.options.Cell, err)
	}
	entry := entryOf(cell, t.options.Membership.Name())
	switch {
	case entry == nil || entry.Holder != t.tenancy.Holder:
		t.end(errors.New("the Cell knows nothing of this shard any more"))
	case cell.UID != t.cell.UID:
		t.end(errRecreated)
	default:
		noted := parseVersion(cell.Status.Aggregator.RestoredVersion) > t.leadership.restored // another shard has recorded a restore
		if err := see(cell); err == nil && !noted {
			return cell, nil
		}
		t.end(errRestored)
	}
	return nil, errDeposed
}

// claim writes that the shard has its remaining slots and, of those that it is to have, the ones that it may take. The slots it takes
// get an epoch above all stored ones. An earlier holder that has not noticed yet is refused as soon as their protectors carry the new
// epoch.
func (t *term) claim(ctx context.Context, shards *ring.Shards, has, wanted slot.Set) error {
	var taken slot.Set
	var epoch int64
	err := retry.RetryOnConflict(t.patience(), func() error {
		cell, err := t.readShare(ctx)
		if err != nil {
			return err
		}
		if !has.Minus(t.recorded(cell)).Empty() {
			return errors.New("slots were taken meanwhile")
		}
		isDead := t.deaths(ctx, cell, shards)
		taken = slot.Claimable(t.options.Membership.Name(), wanted.Minus(has), holdings(cell), isDead)
		slots := has.Or(taken)
		if slots == t.recorded(cell) && taken.Empty() {
			return nil
		}
		place(cell, t.options.Membership.Name(), slots, isDead)
		epoch = cell.Status.Aggregator.Epoch
		if !taken.Empty() {
			epoch = max(epoch, t.highestStoredEpoch(), t.heard.Load(), t.Aggregator.epoch) + 1
			cell.Status.Aggregator.Epoch, cell.Status.Aggregator.Holder = epoch, t.tenancy.Holder
			entryOf(cell, t.options.Membership.Name()).Epoch = epoch
		}
		addUp(cell)
		return t.core.Status().Update(ctx, cell)
	})
	if err != nil {
		return fmt.Errorf("claim slots of Cell %s: %w", t.options.Cell, err)
	}
	if taken.Empty() {
		return nil
	}
	t.Aggregator.epoch = epoch
	t.begin(ctx, taken, epoch)
	return nil
}

// hold makes the cache keep the protectors of the slots that the term has, and of the slots in more.
func (t *term) hold(more slot.Set) {
	has, _ := t.tenure.all()
	t.options.Interest.Set(t.options.Cell, has.Or(more))
}

const (
	// manySlots is the number of slots from which listing all protectors of the core is cheaper than reading those of the slots one
	// by one.
	manySlots = slot.Count / 16
	// protectorPage is the page size for listing protectors.
	protectorPage = 500
)

// fetch lists the protectors that the cache has left out and that the term now works on. The term reads protectors that this list
// misses one by one.
func (t *term) fetch(ctx context.Context) {
	if t.options.Interest == nil {
		return
	}
	for page := (&v1alpha1.PodProtectorList{}); ; {
		token := page.Continue
		page = &v1alpha1.PodProtectorList{}
		if err := t.live.List(ctx, page, client.Limit(protectorPage), client.Continue(token)); err != nil {
			t.log.Error(err, "Protectors are read one by one")
			return
		}
		for i := range page.Items {
			t.options.Interest.TakeIn(t.informer.GetStore(), &page.Items[i])
		}
		if page.Continue == "" {
			return
		}
	}
}

// begin starts counting slots that were claimed, as soon as their pods are listed.
func (t *term) begin(ctx context.Context, slots slot.Set, epoch int64) {
	t.log.Info("Slots are taken", "slots", slots.String(), "epoch", epoch)
	t.hold(slots)
	if slots.Len() >= manySlots {
		t.fetch(ctx)
	}
	t.expectFirsts(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	t.tenure.take(slots, epoch, t.monotonic())
	t.snapshot.Take(slots) // any list that begins from here on is recent enough for the protectors noted above
	nudge(t.relist)
	all, _ := t.tenure.all()
	t.metrics.leading.Set(1)
	t.metrics.epoch.Set(float64(epoch))
	t.metrics.slots.Set(float64(all.Len()))
}

// deaths returns a function that reports whether a shard that has slots has certainly stopped. It judges a shard of another ring by
// its heartbeats alone.
func (t *term) deaths(ctx context.Context, cell *v1alpha1.Cell, shards *ring.Shards) func(shard string) bool {
	known := map[string]bool{}
	return func(shard string) bool {
		if dead, asked := known[shard]; asked || shards.IsAvailable(shard) {
			return dead
		}
		entry := entryOf(cell, shard)
		if entry.Ring != t.options.Membership.Ring() {
			known[shard] = t.isSilent("shard "+shard, beatOf(entry), rivalPatience)
			return known[shard]
		}
		// The watched Leases may lag: they contain no shard that has just joined.
		gone, err := t.options.Membership.IsGone(ctx, shard)
		if err != nil {
			t.log.Error(err, "Whether a shard is dead is not known, so that its slots are not taken", "shard", shard)
		}
		known[shard] = err == nil && gone
		return known[shard]
	}
}

// beatShare writes a heartbeat into the shard's entry.
func (t *term) beatShare(ctx context.Context) error {
	return retry.RetryOnConflict(t.patience(), func() error {
		cell, err := t.readShare(ctx)
		if err != nil {
			return err
		}
		t.heed(cell)
		if has, _ := t.tenure.all(); !has.Minus(t.recorded(cell)).Empty() {
			t.wake()
		}
		pods, protectors := t.snapshot.Size()
		t.metrics.pods.Set(float64(pods))
		t.metrics.protectors.Set(float64(protectors))
		t.metrics.forceDeletable.Set(float64(t.snapshot.ForceDeletable()))
		now := metav1.NewMicroTime(t.now())
		entry := entryOf(cell, t.options.Membership.Name())
		entry.Pods, entry.Protectors, entry.LastHeartbeat = quota.Saturate(pods), quota.Saturate(protectors), &now
		cell.Status.Aggregator.LastHeartbeat = &now
		addUp(cell)
		return t.core.Status().Update(ctx, cell)
	})
}

// farewellShare releases all slots, so that other shards can take them.
func (t *term) farewellShare(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(t.patience(), func() error {
		cell := &v1alpha1.Cell{}
		if err := t.live.Get(ctx, client.ObjectKey{Name: t.options.Cell}, cell); err != nil {
			return err
		}
		if entry := entryOf(cell, t.options.Membership.Name()); entry == nil || entry.Holder != t.tenancy.Holder {
			return nil
		}
		leave(cell, t.options.Membership.Name())
		addUp(cell)
		return t.core.Status().Update(ctx, cell)
	})
	if err != nil {
		t.log.V(1).Info("No farewell", "error", err.Error())
	}
}
