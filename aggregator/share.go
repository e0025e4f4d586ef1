package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// The shards of a ring can share a cell. Each shard counts the namespaces of some slots, which it claims in the Cell's status
// (claim.go). For their protectors it is what a leader is for all. A claim has an epoch above all stored ones, and the pods of its
// slots are listed again before any count uses them. An earlier holder of a slot is refused once the slot's protectors carry the new
// epoch. While no shard has a slot, no component drops reservations there, and its budgets only shrink.

// shareOnce works on the cell for as long as one incarnation of the shard lasts, or until the term's knowledge is void.
func (a *Aggregator) shareOnce(ctx context.Context) error {
	tenancy, err := a.options.Membership.Join(ctx)
	if err != nil {
		return nil //nolint:nilerr // the context has ended
	}
	defer tenancy.Done()
	a.leading <- struct{}{}
	defer func() { <-a.leading }()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(tenancy.Context, func() { end(context.Cause(tenancy.Context)) })()
	mark := a.past.Mark()
	l, err := a.join(ctx, tenancy)
	if err != nil {
		if ctx.Err() == nil && err.Error() != a.told {
			a.told = err.Error() // once, and not each second
			a.log.Error(err, "Not sharing the cell")
		}
		return nil
	}
	a.told = ""
	t := a.newTerm(ctx, l, end)
	t.tenure, t.tenancy, t.log = newTenure(), tenancy, a.log.WithValues("holder", tenancy.Holder)
	t.poke, t.relist = make(chan struct{}, 1), make(chan struct{}, 1)
	t.snapshot.share(t.took)
	a.term.Store(t)
	if !a.past.IsSince(mark) {
		end(errRestored)
	}
	t.log.Info("Sharing the cell")
	t.runShare(ctx)
	a.term.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.slots.Set(0)
	a.metrics.spread.clear()
	t.log.Info("No longer sharing the cell", "reason", reasonOf(ctx))
	t.farewellShare(context.WithoutCancel(ctx))
	a.options.Interest.Set(a.options.Cell, slot.Set{})
	return nil
}

// join adds the entry of an incarnation, without slots. The slots of an earlier incarnation become unowned.
func (a *Aggregator) join(ctx context.Context, tenancy *Tenancy) (leadership, error) {
	if !toolscache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return leadership{}, fmt.Errorf("read PodProtectors: %w", context.Cause(ctx))
	}
	l := leadership{}
	err := retry.RetryOnConflict(a.patience(), func() error {
		cell, now, err := a.readCell(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(a.locate(cell), a.awaitLeader(ctx, cell)); err != nil {
			return err
		}
		l.cell, l.restored = cell, parseVersion(cell.Status.Aggregator.RestoredVersion)
		if a.isRestored(cell, now) {
			l.restored = now
			cell.Status.Aggregator.RestoredVersion = formatVersion(now)
		}
		cell.Status.Aggregator.SeenVersion = formatVersion(now)
		enter(cell, a.options.Membership.Ring(), a.options.Membership.Name(), tenancy.Holder)
		addUp(cell)
		return a.core.Status().Update(ctx, cell)
	})
	if apierrors.IsNotFound(err) {
		return l, fmt.Errorf("the core cluster has no Cell %q: create it, or correct --cell", a.options.Cell)
	}
	if err != nil {
		return l, fmt.Errorf("join the shards of Cell %s: %w", a.options.Cell, err)
	}
	l.version = parseVersion(l.cell.ResourceVersion)
	return l, nil
}

// patience returns the retry backoff for writes of the Cell, which the other shards write too. The delays depend on the shard's
// name.
func (a *Aggregator) patience() wait.Backoff {
	return wait.Backoff{Steps: 8, Duration: time.Duration(5+slot.Of(a.options.Membership.Name())%16) * time.Millisecond, Factor: 2}
}

func (t *term) runShare(ctx context.Context) {
	forget := t.options.Membership.Tell(t.wake)
	defer forget()
	var running sync.WaitGroup
	running.Go(func() { t.streamShare(ctx) })
	running.Go(func() { t.watchNodes(ctx) })
	running.Go(func() { t.keepShare(ctx) })
	running.Go(func() { t.trigger(ctx) })
	for range t.options.Workers {
		running.Go(func() { t.work(ctx) })
	}
	<-ctx.Done()
	t.queue.ShutDown()
	running.Wait()
}

// streamShare lists the pods again whenever slots were added, and watches from there.
func (t *term) streamShare(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.relist:
		}
		stop()
		streaming, cancel := context.WithCancel(ctx)
		var stream sync.WaitGroup
		stream.Go(func() { newStream(t.pods, t.snapshot, t.log).RunWithContext(streaming) })
		stop = func() {
			cancel()
			stream.Wait()
		}
	}
}

// took enqueues the protectors of slots whose pods are now all in the snapshot.
func (t *term) took(slots slot.Set) {
	t.log.Info("Counting", "slots", slots.String())
	t.enqueueAll(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	t.whole.Store(true)
	t.wake()
}

// wake requests a check of which slots the shards have.
func (t *term) wake() { nudge(t.poke) }

func nudge(who chan struct{}) {
	select {
	case who <- struct{}{}:
	default:
	}
}

// giveUp releases some slots. When it returns, no worker works on them and their state is dropped.
func (t *term) giveUp(slots slot.Set) {
	t.tenure.drop(slots)
	keys := map[types.NamespacedName]bool{}
	t.mu.Lock()
	keysOf(slots, t.deadlines, keys)
	keysOf(slots, t.firsts, keys)
	keysOf(slots, t.cleared, keys)
	keysOf(slots, t.quiets, keys)
	t.mu.Unlock()
	t.followed.in(slots, keys)
	t.metrics.spread.in(slots, keys)
	for key := range keys {
		t.forget(key)
	}
	t.snapshot.GiveUp(slots)
	t.hold(slot.Set{})
	t.options.Interest.LeaveOut(t.informer.GetStore())
	t.log.Info("No longer counting", "slots", slots.String())
}

// enter begins work on a protector of a namespace. It returns false if the term does not have the slot.
func (t *term) enter(namespace string) bool {
	return t.tenure == nil || t.tenure.enter(slot.Of(namespace))
}

func (t *term) leave(namespace string) {
	if t.tenure != nil {
		t.tenure.leave(slot.Of(namespace))
	}
}

// has reports whether the term has the protectors of a namespace.
func (t *term) has(namespace string) bool { return t.tenure == nil || t.tenure.has(slot.Of(namespace)) }

// mayWrite reports whether it still has them. Other shards may consider a shard whose Lease has expired dead.
func (t *term) mayWrite(namespace string) bool {
	return t.tenure == nil || t.tenure.has(slot.Of(namespace)) && t.tenancy.Held()
}

// epochOf returns the epoch for writes to a namespace's protectors.
func (t *term) epochOf(namespace string) int64 {
	if t.tenure == nil {
		return t.epoch
	}
	return t.tenure.of(slot.Of(namespace)).epoch
}

// sinceOf returns since when the term has had them.
func (t *term) sinceOf(namespace string) time.Time {
	if t.tenure == nil {
		return t.began
	}
	return t.tenure.of(slot.Of(namespace)).since
}

// holder returns the name under which the term writes.
func (t *term) holder() string {
	if t.tenancy == nil {
		return t.options.Identity
	}
	return t.tenancy.Holder
}

// heardOf records an epoch of another holder.
func (t *term) heardOf(epoch int64) {
	for known := t.heard.Load(); epoch > known && !t.heard.CompareAndSwap(known, epoch); known = t.heard.Load() {
	}
}

// depose ends the part of the term that a later leader, or shard, has written: the whole term, or a slot.
func (t *term) depose(namespace string, why error) {
	if t.tenure == nil {
		t.end(why)
		return
	}
	t.log.Info("A slot is another's", "slot", slot.Of(namespace), "reason", why.Error())
	t.tenure.close(slot.Set{}.With(slot.Of(namespace)))
	t.wake()
}

// isListed reports whether pods were listed, if there are any to count.
func (t *term) isListed() bool {
	if t.tenure != nil {
		if all, _ := t.tenure.all(); all.Empty() {
			return true
		}
	}
	return t.snapshot.Listed()
}

// isWhole reports whether the snapshot has the pods of all slots. A heartbeat confirms the counts of all of them.
func (t *term) isWhole() bool {
	if t.tenure == nil {
		return true
	}
	all, _ := t.tenure.all()
	return t.snapshot.Covers(all)
}

// watchShares checks which slots the shards have whenever that has changed, so that a shard takes at once what another one releases.
func (a *Aggregator) watchShares(ctx context.Context, mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		old, _ := before.(*v1alpha1.Cell)
		cell, ok := after.(*v1alpha1.Cell)
		if t := a.term.Load(); ok && t != nil && cell.Name == a.options.Cell && !slices.Equal(holdings(old), holdings(cell)) {
			t.wake()
		}
	}})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	a.unwatch = func() error { return informer.RemoveEventHandler(handler) }
	return nil
}
