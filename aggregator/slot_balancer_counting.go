package aggregator

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// begin starts counting slots that were claimed, as soon as their pods are listed.
func (b *slotBalancer) begin(ctx context.Context, slots slot.Set, epoch int64) {
	b.l.log.Info("Claimed slots", "slots", slots.String(), "epoch", epoch)
	b.keepCached(slots)
	if slots.Len() >= fullListThreshold {
		b.fetchProtectors(ctx)
	}
	b.l.reconciler.pods.initial.expect(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	b.l.ownership.Slots.Add(slots, ownership.Claim{Epoch: epoch, ClaimedAt: b.l.aggregator.clocks.monotonic()})
	b.l.snapshot.AddSlots(slots) // any list that begins from here on is recent enough for the protectors noted above
	ownership.Notify(b.relistRequests)
	all, _ := b.l.ownership.Slots.Claimed()
	b.l.aggregator.metrics.leading.Set(1)
	b.l.aggregator.metrics.epoch.Set(float64(epoch))
	b.l.aggregator.metrics.slots.Set(float64(all.Len()))
}

// stream lists the pods again whenever slots were added, and watches from there.
func (b *slotBalancer) stream(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.relistRequests:
		}
		stop()
		streaming, cancel := context.WithCancel(ctx)
		var stream sync.WaitGroup
		stream.Go(func() { b.l.snapshot.Stream(streaming, b.l.aggregator.cell.trimmedPods, b.l.log) })
		stop = func() {
			cancel()
			stream.Wait()
		}
	}
}

// covered enqueues the protectors of slots whose pods are now all in the snapshot.
func (b *slotBalancer) covered(slots slot.Set) {
	b.l.log.Info("Started counting slots", "slots", slots.String())
	b.l.enqueuer.enqueueAll(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	b.listReceived.Store(true)
	b.l.ownership.RequestRebalance()
}

// release releases some slots. When it returns, no worker works on them and their state is dropped.
func (b *slotBalancer) release(slots slot.Set) {
	b.l.ownership.Slots.Release(slots)
	b.l.reconciler.states.ForgetIn(slots)
	b.l.snapshot.ReleaseSlots(slots)
	b.keepCached(slot.Set{})
	b.l.aggregator.options.Interest.StripExcluded(b.core.informer.GetStore())
	b.l.log.Info("Stopped counting slots", "slots", slots.String())
}

// keepCached makes the cache keep the protectors of the slots that the leadership has, and of the slots in more.
func (b *slotBalancer) keepCached(more slot.Set) {
	has, _ := b.l.ownership.Slots.Claimed()
	b.l.aggregator.options.Interest.Set(b.l.start.cell.Name, has.Or(more))
}

const (
	// fullListThreshold is the number of slots from which listing all protectors of the core is cheaper than reading those of the slots one
	// by one.
	fullListThreshold = slot.Count / 16
	// protectorPage is the page size for listing protectors.
	protectorPage = 500
)

// fetchProtectors lists the protectors that the cache has left out and that the leadership now works on. The leadership reads protectors that this list
// misses one by one.
func (b *slotBalancer) fetchProtectors(ctx context.Context) {
	if b.l.aggregator.options.Interest == nil {
		return
	}
	for page := (&v1alpha1.PodProtectorList{}); ; {
		token := page.Continue
		page = &v1alpha1.PodProtectorList{}
		if err := b.core.reader.List(ctx, page, client.Limit(protectorPage), client.Continue(token)); err != nil {
			b.l.log.Error(err, "Failed to list protectors; reading them one by one")
			return
		}
		for i := range page.Items {
			b.l.aggregator.options.Interest.RestoreIncluded(b.core.informer.GetStore(), &page.Items[i])
		}
		if page.Continue == "" {
			return
		}
	}
}

// writeHeartbeat writes a heartbeat into the shard's entry.
func (b *slotBalancer) writeHeartbeat(ctx context.Context) error {
	return retry.RetryOnConflict(writeBackoff(b.shard.Name()), func() error {
		cell, err := b.readCell(ctx)
		if err != nil {
			return err
		}
		b.l.applyCell(cell)
		if has, _ := b.l.ownership.Slots.Claimed(); !has.Minus(b.recorded(cell)).Empty() {
			b.l.ownership.RequestRebalance()
		}
		pods, protectors := b.l.aggregator.metrics.recordSizes(b.l.snapshot)
		now := metav1.NewMicroTime(b.l.aggregator.clocks.now())
		entry := ownership.EntryOf(cell, b.shard.Name())
		entry.Pods, entry.Protectors, entry.LastHeartbeat = quota.Saturate(pods), quota.Saturate(protectors), &now
		cell.Status.Aggregator.LastHeartbeat = &now
		ownership.SumShards(cell)
		return b.core.client.Status().Update(ctx, cell)
	})
}

// releaseAll releases all slots, so that other shards can take them.
func (b *slotBalancer) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(writeBackoff(b.shard.Name()), func() error {
		cell := &v1alpha1.Cell{}
		if err := b.core.reader.Get(ctx, client.ObjectKey{Name: b.l.start.cell.Name}, cell); err != nil {
			return err
		}
		if entry := ownership.EntryOf(cell, b.shard.Name()); entry == nil || entry.Holder != b.l.ownership.Incarnation.Holder {
			return nil
		}
		ownership.RemoveEntry(cell, b.shard.Name())
		ownership.SumShards(cell)
		return b.core.client.Status().Update(ctx, cell)
	})
	if err != nil {
		b.l.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}
