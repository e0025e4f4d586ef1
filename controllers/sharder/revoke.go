package sharder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// revoker removes shards from the ring that hold up moves. Their objects then go to other shards like those of any dead shard, but not before
// such a shard must have stopped.
type revoker struct {
	reader   *reader
	registry shardRegistry
	ring     *v1alpha1.ClusterRing
	moves    *moves
	failures *failures
	metrics  *Metrics
	events   events.EventRecorder
	now      func() time.Time
}

// revoke removes shards from the ring that did not release an object in time.
func (r *revoker) revoke(ctx context.Context) {
	if len(r.moves.inProgress) == 0 {
		return
	}
	states := r.reader.shardStates()
	r.moves.observe(states, func(shard string) string { return r.registry.Holder(r.ring, shard) }, r.now())
	limit := time.Duration(r.ring.Spec.DrainTimeoutSeconds) * time.Second
	for shard, key := range r.moves.overdue(limit, r.now()) {
		err := r.registry.Revoke(ctx, r.ring, shard)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // retry at the next poll, based on the new state of its Lease
		}
		if err != nil {
			r.failures.add("shard "+shard+", which does not release "+key.String(), fmt.Errorf("remove it from the ring: %w", err))
			continue
		}
		r.moves.shards[shard] = readySince{since: r.now()}
		r.metrics.revoked.WithLabelValues(r.ring.Name).Inc()
		log.FromContext(ctx).Info("Removed shard from ring", "ring", r.ring.Name, "shard", shard, "object", key.String())
		r.events.Eventf(r.ring, nil, corev1.EventTypeWarning, "DrainTimeout", "Revoke", "%s", clusters.EventNote(fmt.Sprintf(
			"Shard %s has not released %s for %s: the sharder removed it from the ring, and assigns its objects to other shards once it must have stopped. "+
				"Find out why it does not respond, or raise spec.drainTimeoutSeconds if it needs more time.", shard, key, limit)))
	}
}
