package aggregator

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// writeHeartbeat writes a heartbeat into the shard's entry.
func (b *slotBalancer) writeHeartbeat(ctx context.Context) error {
	return retry.RetryOnConflict(writeBackoff(b.options.Membership.Name()), func() error {
		cell, err := b.readCell(ctx)
		if err != nil {
			return err
		}
		b.applyCell(cell)
		if has, _ := b.owned.slots.claimed(); !has.Minus(b.recorded(cell)).Empty() {
			b.owned.requestRebalance()
		}
		pods, protectors := b.metrics.recordSizes(b.snapshot)
		now := metav1.NewMicroTime(b.now())
		entry := entryOf(cell, b.options.Membership.Name())
		entry.Pods, entry.Protectors, entry.LastHeartbeat = quota.Saturate(pods), quota.Saturate(protectors), &now
		cell.Status.Aggregator.LastHeartbeat = &now
		sumShards(cell)
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
		if entry := entryOf(cell, b.options.Membership.Name()); entry == nil || entry.Holder != b.owned.incarnation.Holder {
			return nil
		}
		removeEntry(cell, b.options.Membership.Name())
		sumShards(cell)
		return b.coreClient.Status().Update(ctx, cell)
	})
	if err != nil {
		b.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}
