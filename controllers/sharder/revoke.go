package sharder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// states returns the states of the ring's shards.
func (p *pass) states() map[string]v1alpha1.ShardState {
	states := map[string]v1alpha1.ShardState{}
	for _, member := range p.registry.Of(p.ring) {
		states[member.Name] = member.State
	}
	return states
}

// revoke removes shards from the ring that did not release an object in time.
func (p *pass) revoke(ctx context.Context) {
	if len(p.moves.inProgress) == 0 {
		return
	}
	states := p.states()
	p.moves.observe(states, func(shard string) string { return p.registry.Holder(p.ring, shard) }, p.now())
	limit := time.Duration(p.ring.Spec.DrainTimeoutSeconds) * time.Second
	for shard, key := range p.moves.overdue(limit, p.now()) {
		err := p.registry.Revoke(ctx, p.ring, shard)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // retry at the next poll, based on the new state of its Lease
		}
		if err != nil {
			p.failures.add("shard "+shard+", which does not release "+key.String(), fmt.Errorf("remove it from the ring: %w", err))
			continue
		}
		p.moves.shards[shard] = readySince{since: p.now()}
		p.metrics.revoked.WithLabelValues(p.ring.Name).Inc()
		log.FromContext(ctx).Info("Removed shard from ring", "ring", p.ring.Name, "shard", shard, "object", key.String())
		p.events.Eventf(p.ring, nil, corev1.EventTypeWarning, "DrainTimeout", "Revoke", "%s", clusters.EventNote(fmt.Sprintf(
			"Shard %s has not released %s for %s: the sharder removed it from the ring, and assigns its objects to other shards once it must have stopped. "+
				"Find out why it does not respond, or raise spec.drainTimeoutSeconds if it needs more time.", shard, key, limit)))
	}
}
