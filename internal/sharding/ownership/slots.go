// Package ownership lets the processes of a ring without resources divide the namespaces among themselves. Each process owns some slots,
// and works on the objects in their namespaces. Ownership is recorded in the ring's status, which is changed only by
// compare-and-swap. A shard takes slots that no shard has. It gives up slots that belong to another shard when it has finished the
// work in progress. Aggregators that share a cell use Claims alone: they record their slots, with epochs, in the status of the Cell.
package ownership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// checkInterval is the interval at which a shard checks the ownership of slots even without a notification.
const checkInterval = 5 * time.Second

// Options configures Slots.
type Options struct {
	// Ring and Shard are the names of the ring and of the shard.
	Ring, Shard string
	// Holder identifies the incarnation, as the holder of the shard's Lease.
	Holder string
	// IsHeld reports whether the shard holds its Lease.
	IsHeld func() bool
	// Shards returns the shards of the ring.
	Shards func(*v1alpha1.ClusterRing) *ring.Shards
	// IsDead asks the API server whether a shard that is not available has stopped working: it has no Lease, or one that was given up.
	IsDead func(ctx context.Context, of *v1alpha1.ClusterRing, shard string) (bool, error)
	// Live reads from the API server, and Client writes to it.
	Live   client.Reader
	Client client.Client
	Log    logr.Logger
}

// Slots is the set of slots of this process.
type Slots struct {
	Options
	checkRequests chan struct{}
	claims        *Claims[struct{}]

	// mu guards the listeners. take also adds slots under it, so that onTake passes each slot to its listener once.
	mu sync.Mutex
	// takeListeners are called with slots after they were taken, and releaseListeners with slots after they were given up.
	takeListeners, releaseListeners []func(slot.Set)
}

// New returns the Slots of a process that has no slots yet. Start acquires them.
func New(options Options) *Slots {
	return &Slots{Options: options, checkRequests: make(chan struct{}, 1), claims: NewClaims[struct{}]()}
}

// RequestCheck triggers an immediate check of the ownership, for instance when the shards have changed.
func (s *Slots) RequestCheck() {
	select {
	case s.checkRequests <- struct{}{}:
	default:
	}
}

// Enter begins work in a namespace. The caller must end it by calling leave. ok is false if the namespace does not belong to this
// shard.
func (s *Slots) Enter(namespace string) (leave func(), ok bool) {
	n := slot.Of(namespace)
	if !s.claims.BeginWork(n) {
		return nil, false
	}
	if !s.IsHeld() {
		s.claims.EndWork(n)
		return nil, false
	}
	return func() { s.claims.EndWork(n) }, true
}

// onTake registers a function for taken slots, and calls it with the current ones.
func (s *Slots) onTake(listener func(slot.Set)) {
	s.mu.Lock()
	has := s.claims.Open()
	s.takeListeners = append(s.takeListeners, listener)
	s.mu.Unlock()
	listener(has)
}

// OnRelease registers a function that is called with slots that were given up, after all work in them has ended.
func (s *Slots) OnRelease(listener func(slot.Set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseListeners = append(s.releaseListeners, listener)
}

// SlotCount returns the number of slots that the shard has.
func (s *Slots) SlotCount() int { return s.claims.Open().Len() }

// Start maintains the slots until ctx ends, and then gives up all slots.
func (s *Slots) Start(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		if err := s.rebalance(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "Failed to rebalance slots")
		}
		select {
		case <-ctx.Done():
			s.releaseAll(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		case <-s.checkRequests:
		}
	}
}

// rebalance adjusts the shard's slots to the wanted ones.
func (s *Slots) rebalance(ctx context.Context) error {
	clusterRing, err := s.read(ctx)
	if err != nil {
		return err
	}
	shards := s.Shards(clusterRing)
	if !shards.IsAvailable(s.Shard) {
		return nil // the slots of the other shards are then unknown too
	}
	wanted, recorded := slot.ByShard(shards)[s.Shard], recordOf(clusterRing, s.Shard, s.Holder)
	has := s.claims.Open()
	keeps := has.And(wanted).And(recorded)
	s.release(has.Minus(keeps))
	if keeps == wanted && recorded == wanted || !s.IsHeld() {
		return nil
	}
	return s.claim(ctx, shards, keeps, wanted)
}

// claim records the slots that the shard keeps, and takes those wanted slots that it may take.
func (s *Slots) claim(ctx context.Context, shards *ring.Shards, keeps, wanted slot.Set) error {
	var claimed slot.Set
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		clusterRing, err := s.read(ctx)
		if err != nil {
			return err
		}
		if !keeps.Minus(recordOf(clusterRing, s.Shard, s.Holder)).Empty() {
			return fmt.Errorf("another shard has taken slots %s", keeps.Minus(recordOf(clusterRing, s.Shard, s.Holder)))
		}
		isDead, err := s.deadShards(ctx, clusterRing, shards)
		if err != nil {
			return err
		}
		claimed = slot.Claimable(s.Shard, wanted.Minus(keeps), holdings(clusterRing), isDead)
		if !record(clusterRing, s.Shard, s.Holder, keeps.Or(claimed), isDead) {
			return nil
		}
		return s.Client.Status().Update(ctx, clusterRing)
	})
	if err != nil {
		return fmt.Errorf("claim slots of ClusterRing %s: %w", s.Ring, err)
	}
	if !claimed.Empty() {
		s.take(claimed)
	}
	return nil
}

// deadShards determines which of the shards with slots have certainly stopped working.
func (s *Slots) deadShards(ctx context.Context, clusterRing *v1alpha1.ClusterRing, shards *ring.Shards) (func(shard string) bool, error) {
	dead := map[string]bool{}
	for _, h := range clusterRing.Status.Holdings {
		if h.Shard == s.Shard || shards.IsAvailable(h.Shard) {
			continue
		}
		// The watched Leases may lag: they do not include a new shard.
		stopped, err := s.IsDead(ctx, clusterRing, h.Shard)
		if err != nil {
			return nil, fmt.Errorf("check whether shard %s has stopped: %w", h.Shard, err)
		}
		dead[h.Shard] = stopped
	}
	return func(shard string) bool { return dead[shard] }, nil
}

func (s *Slots) read(ctx context.Context) (*v1alpha1.ClusterRing, error) {
	clusterRing := &v1alpha1.ClusterRing{}
	if err := s.Live.Get(ctx, client.ObjectKey{Name: s.Ring}, clusterRing); err != nil {
		return nil, fmt.Errorf("read ClusterRing %s: %w", s.Ring, err)
	}
	return clusterRing, nil
}

func (s *Slots) take(slots slot.Set) {
	s.mu.Lock()
	s.claims.Add(slots, struct{}{})
	listeners := s.takeListeners
	s.mu.Unlock()
	s.Log.Info("Claimed slots", "slots", slots.String())
	for _, listener := range listeners {
		listener(slots)
	}
}

// release stops new work in some slots, and returns when the work in progress has ended.
func (s *Slots) release(slots slot.Set) {
	if slots.Empty() {
		return
	}
	s.claims.Release(slots)
	s.mu.Lock()
	listeners := s.releaseListeners
	s.mu.Unlock()
	s.Log.Info("Released slots", "slots", slots.String())
	for _, listener := range listeners {
		listener(slots)
	}
}

// releaseAll gives up all slots.
func (s *Slots) releaseAll(ctx context.Context) {
	s.release(slot.All())
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		clusterRing, err := s.read(ctx)
		if err != nil {
			return err
		}
		if recordOf(clusterRing, s.Shard, s.Holder).Empty() {
			return nil
		}
		removeRecord(clusterRing, s.Shard)
		return s.Client.Status().Update(ctx, clusterRing)
	})
	if err != nil {
		s.Log.V(1).Info("Failed to release the slots", "error", err.Error())
	}
}
