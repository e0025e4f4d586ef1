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
	b.log.Info("Claimed slots", "slots", slots.String(), "epoch", epoch)
	b.keepCached(slots)
	if slots.Len() >= fullListThreshold {
		b.fetchProtectors(ctx)
	}
	b.initial.expect(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	b.owned.Slots.Add(slots, epoch, b.monotonic())
	b.snapshot.AddSlots(slots) // any list that begins from here on is recent enough for the protectors noted above
	ownership.Notify(b.relistRequests)
	all, _ := b.owned.Slots.Claimed()
	b.metrics.leading.Set(1)
	b.metrics.epoch.Set(float64(epoch))
	b.metrics.slots.Set(float64(all.Len()))
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
		stream.Go(func() { b.snapshot.Stream(streaming, b.trimmedPods, b.log) })
		stop = func() {
			cancel()
			stream.Wait()
		}
	}
}

// covered enqueues the protectors of slots whose pods are now all in the snapshot.
func (b *slotBalancer) covered(slots slot.Set) {
	b.log.Info("Started counting slots", "slots", slots.String())
	b.enqueuer.enqueueAll(func(namespace string) bool { return slots.Has(slot.Of(namespace)) })
	b.listReceived.Store(true)
	b.owned.RequestRebalance()
}

// release releases some slots. When it returns, no worker works on them and their state is dropped.
func (b *slotBalancer) release(slots slot.Set) {
	b.owned.Slots.Release(slots)
	b.forgetIn(slots)
	b.snapshot.ReleaseSlots(slots)
	b.keepCached(slot.Set{})
	b.options.Interest.StripExcluded(b.informer.GetStore())
	b.log.Info("Stopped counting slots", "slots", slots.String())
}

// keepCached makes the cache keep the protectors of the slots that the leadership has, and of the slots in more.
func (b *slotBalancer) keepCached(more slot.Set) {
	has, _ := b.owned.Slots.Claimed()
	b.options.Interest.Set(b.options.Cell, has.Or(more))
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
	if b.options.Interest == nil {
		return
	}
	for page := (&v1alpha1.PodProtectorList{}); ; {
		token := page.Continue
		page = &v1alpha1.PodProtectorList{}
		if err := b.coreReader.List(ctx, page, client.Limit(protectorPage), client.Continue(token)); err != nil {
			b.log.Error(err, "Failed to list protectors; reading them one by one")
			return
		}
		for i := range page.Items {
			b.options.Interest.RestoreIncluded(b.informer.GetStore(), &page.Items[i])
		}
		if page.Continue == "" {
			return
		}
	}
}

// writeHeartbeat writes a heartbeat into the shard's entry.
func (b *slotBalancer) writeHeartbeat(ctx context.Context) error {
	return retry.RetryOnConflict(writeBackoff(b.options.Membership.Name()), func() error {
		cell, err := b.readCell(ctx)
		if err != nil {
			return err
		}
		b.applyCell(cell)
		if has, _ := b.owned.Slots.Claimed(); !has.Minus(b.recorded(cell)).Empty() {
			b.owned.RequestRebalance()
		}
		pods, protectors := b.metrics.recordSizes(b.snapshot)
		now := metav1.NewMicroTime(b.now())
		entry := ownership.EntryOf(cell, b.options.Membership.Name())
		entry.Pods, entry.Protectors, entry.LastHeartbeat = quota.Saturate(pods), quota.Saturate(protectors), &now
		cell.Status.Aggregator.LastHeartbeat = &now
		ownership.SumShards(cell)
		return b.coreClient.Status().Update(ctx, cell)
	})
}

// releaseAll releases all slots, so that other shards can take them.
func (b *slotBalancer) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(writeBackoff(b.options.Membership.Name()), func() error {
		cell := &v1alpha1.Cell{}
		if err := b.coreReader.Get(ctx, client.ObjectKey{Name: b.options.Cell}, cell); err != nil {
			return err
		}
		if entry := ownership.EntryOf(cell, b.options.Membership.Name()); entry == nil || entry.Holder != b.owned.Incarnation.Holder {
			return nil
		}
		ownership.RemoveEntry(cell, b.options.Membership.Name())
		ownership.SumShards(cell)
		return b.coreClient.Status().Update(ctx, cell)
	})
	if err != nil {
		b.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}
