// Package share lets the processes of a ring without resources divide the namespaces among themselves. Each process owns some slots,
// and works on the objects in their namespaces. Ownership is recorded in the ring's status, which is changed only by
// compare-and-swap. A shard takes slots that no shard has. It gives up slots that belong to another shard when it has finished the
// work in progress.
package share

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

// lookAgain is the interval at which a shard checks the ownership of slots even without a notification.
const lookAgain = 5 * time.Second

// Options configures a Share.
type Options struct {
	// Ring and Shard are the names of the ring and of the shard.
	Ring, Shard string
	// Holder identifies the incarnation, as the holder of the shard's Lease.
	Holder string
	// Held reports whether the shard holds its Lease.
	Held func() bool
	// Shards returns the shards of the ring.
	Shards func(*v1alpha1.ClusterRing) *ring.Shards
	// IsDead asks the API server whether a shard that is not available has stopped working: it has no Lease, or one that was given up.
	IsDead func(ctx context.Context, of *v1alpha1.ClusterRing, shard string) (bool, error)
	// Live reads from the API server, and Client writes to it.
	Live   client.Reader
	Client client.Client
	Log    logr.Logger
}

// Share is the set of slots of this process.
type Share struct {
	Options
	poke chan struct{}

	mu sync.Mutex
	// idle is signaled when the last work in a slot has ended.
	idle *sync.Cond
	has  slot.Set
	busy [slot.Count]int
	// taken are called with slots after they were taken, and given with slots after they were given up.
	taken, given []func(slot.Set)
}

// New returns the Share of a process that has no slots yet. Start acquires them.
func New(options Options) *Share {
	s := &Share{Options: options, poke: make(chan struct{}, 1)}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// Poke triggers an immediate check of the ownership, for instance when the shards have changed.
func (s *Share) Poke() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Enter begins work in a namespace. The caller must end it by calling leave. ok is false if the namespace does not belong to this
// shard.
func (s *Share) Enter(namespace string) (leave func(), ok bool) {
	n := slot.Of(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has.Has(n) || !s.Held() {
		return nil, false
	}
	s.busy[n]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy[n]--; s.busy[n] == 0 {
			s.idle.Broadcast()
		}
	}, true
}

// tell registers a function for taken slots, and calls it with the current ones.
func (s *Share) tell(who func(slot.Set)) {
	s.mu.Lock()
	has := s.has
	s.taken = append(s.taken, who)
	s.mu.Unlock()
	who(has)
}

// OnGiveUp registers a function that is called with slots that were given up, after all work in them has ended.
func (s *Share) OnGiveUp(who func(slot.Set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, who)
}

// Has returns the number of slots that the shard has.
func (s *Share) Has() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has.Len()
}

// Start maintains the share until ctx ends, and then gives up all slots.
func (s *Share) Start(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		if err := s.rebalance(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "Slots stay where they are")
		}
		select {
		case <-ctx.Done():
			s.end(context.WithoutCancel(ctx))
			return nil
		case <-again.C:
		case <-s.poke:
		}
	}
}

// rebalance adjusts the shard's slots to the wanted ones.
func (s *Share) rebalance(ctx context.Context) error {
	of, err := s.read(ctx)
	if err != nil {
		return err
	}
	shards := s.Shards(of)
	if !shards.IsAvailable(s.Shard) {
		return nil // the slots of the other shards are then unknown too
	}
	wanted, recorded := slot.Shares(shards)[s.Shard], recordOf(of, s.Shard, s.Holder)
	s.mu.Lock()
	has := s.has
	s.mu.Unlock()
	keeps := has.And(wanted).And(recorded)
	s.giveUp(has.Minus(keeps))
	if keeps == wanted && recorded == wanted || !s.Held() {
		return nil
	}
	return s.claim(ctx, shards, keeps, wanted)
}

// claim records the slots that the shard keeps, and takes those wanted slots that it may take.
func (s *Share) claim(ctx context.Context, shards *ring.Shards, keeps, wanted slot.Set) error {
	var taken slot.Set
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		of, err := s.read(ctx)
		if err != nil {
			return err
		}
		if !keeps.Minus(recordOf(of, s.Shard, s.Holder)).Empty() {
			return fmt.Errorf("slots %s are another's by now", keeps.Minus(recordOf(of, s.Shard, s.Holder)))
		}
		isDead, err := s.deaths(ctx, of, shards)
		if err != nil {
			return err
		}
		taken = slot.Claimable(s.Shard, wanted.Minus(keeps), holdings(of), isDead)
		if !record(of, s.Shard, s.Holder, keeps.Or(taken), isDead) {
			return nil
		}
		return s.Client.Status().Update(ctx, of)
	})
	if err != nil {
		return fmt.Errorf("take slots of ClusterRing %s: %w", s.Ring, err)
	}
	if !taken.Empty() {
		s.take(taken)
	}
	return nil
}

// deaths determines which of the shards with slots have certainly stopped working.
func (s *Share) deaths(ctx context.Context, of *v1alpha1.ClusterRing, shards *ring.Shards) (func(shard string) bool, error) {
	dead := map[string]bool{}
	for _, h := range of.Status.Holdings {
		if h.Shard == s.Shard || shards.IsAvailable(h.Shard) {
			continue
		}
		// The watched Leases may lag: they do not include a new shard.
		is, err := s.IsDead(ctx, of, h.Shard)
		if err != nil {
			return nil, fmt.Errorf("find out whether shard %s works: %w", h.Shard, err)
		}
		dead[h.Shard] = is
	}
	return func(shard string) bool { return dead[shard] }, nil
}

func (s *Share) read(ctx context.Context) (*v1alpha1.ClusterRing, error) {
	of := &v1alpha1.ClusterRing{}
	if err := s.Live.Get(ctx, client.ObjectKey{Name: s.Ring}, of); err != nil {
		return nil, fmt.Errorf("read ClusterRing %s: %w", s.Ring, err)
	}
	return of, nil
}

func (s *Share) take(slots slot.Set) {
	s.mu.Lock()
	s.has = s.has.Or(slots)
	taken := s.taken
	s.mu.Unlock()
	s.Log.Info("Slots are taken", "slots", slots.String())
	for _, who := range taken {
		who(slots)
	}
}

// giveUp stops new work in some slots, and returns when the work in progress has ended.
func (s *Share) giveUp(slots slot.Set) {
	if slots.Empty() {
		return
	}
	s.mu.Lock()
	s.has = s.has.Minus(slots)
	for n := range slots.Each() {
		for s.busy[n] > 0 {
			s.idle.Wait()
		}
	}
	given := s.given
	s.mu.Unlock()
	s.Log.Info("Slots are given up", "slots", slots.String())
	for _, who := range given {
		who(slots)
	}
}

// end gives up all slots.
func (s *Share) end(ctx context.Context) {
	s.giveUp(slot.All())
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		of, err := s.read(ctx)
		if err != nil {
			return err
		}
		if recordOf(of, s.Shard, s.Holder).Empty() {
			return nil
		}
		forget(of, s.Shard)
		return s.Client.Status().Update(ctx, of)
	})
	if err != nil {
		s.Log.V(1).Info("No farewell", "error", err.Error())
	}
}
