// Package share lets the processes of a ring without resources share namespaces out among themselves: each has some slots, and works
// on what is in their namespaces. Who has which is recorded in the ring's status, which is only ever changed by compare-and-swap: a
// shard takes what nobody has, and gives up what is to be another's when it has ended what it was at.
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

// lookAgain is how often a shard looks at who has which slots, although it has heard of no change.
const lookAgain = 5 * time.Second

// Options say who shares what.
type Options struct {
	// Ring and Shard are the names of the ring and of the shard.
	Ring, Shard string
	// Holder is the incarnation, as the holder of the shard's Lease.
	Holder string
	// Held tells whether the shard holds its Lease.
	Held func() bool
	// Shards are those of the ring.
	Shards func(*v1alpha1.ClusterRing) *ring.Shards
	// IsDead asks the apiserver whether a shard that is not available works no more: it has no Lease, or one that is given up.
	IsDead func(ctx context.Context, of *v1alpha1.ClusterRing, shard string) (bool, error)
	// Live reads from the apiserver, and Client writes to it.
	Live   client.Reader
	Client client.Client
	Log    logr.Logger
}

// Share is what this process has.
type Share struct {
	Options
	poke chan struct{}

	mu sync.Mutex
	// idle is told when a slot has nobody at work in it any more.
	idle *sync.Cond
	has  slot.Set
	busy [slot.Count]int
	// taken are called with slots that were taken, given with those that were given up.
	taken, given []func(slot.Set)
}

// New makes the share of a process that has nothing yet. Start takes it part.
func New(options Options) *Share {
	s := &Share{Options: options, poke: make(chan struct{}, 1)}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// Poke lets it look at once at who is to have what, as when the shards have changed.
func (s *Share) Poke() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Enter begins work in a namespace, which the caller ends by leave; not ok when it is not this shard's.
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

// tell calls somebody with all slots that there are and that are taken.
func (s *Share) tell(who func(slot.Set)) {
	s.mu.Lock()
	has := s.has
	s.taken = append(s.taken, who)
	s.mu.Unlock()
	who(has)
}

// OnGiveUp calls somebody with slots that were given up, when nobody works in them any more.
func (s *Share) OnGiveUp(who func(slot.Set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, who)
}

// Has is how many slots the shard has.
func (s *Share) Has() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has.Len()
}

// Start shares until ctx ends, and gives up all then.
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

// rebalance brings what the shard has to what it is to have.
func (s *Share) rebalance(ctx context.Context) error {
	of, err := s.read(ctx)
	if err != nil {
		return err
	}
	shards := s.Shards(of)
	if !shards.IsAvailable(s.Shard) {
		return nil // what the others are to have is not known either
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

// claim records that the shard has what it keeps, and takes what it may of what it is to have.
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

// deaths tells which of the shards that have slots certainly do not work any more.
func (s *Share) deaths(ctx context.Context, of *v1alpha1.ClusterRing, shards *ring.Shards) (func(shard string) bool, error) {
	dead := map[string]bool{}
	for _, h := range of.Status.Holdings {
		if h.Shard == s.Shard || shards.IsAvailable(h.Shard) {
			continue
		}
		// The Leases that are watched may be behind: a shard that is new is in none of them.
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

// giveUp begins nothing more in some slots, and returns when what was begun has ended.
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

// end gives up all.
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
