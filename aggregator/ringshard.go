package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/members"
	"github.com/breakwater-k8s/breakwater/internal/ring"
)

// RingShard is a shard of a ClusterRing by its Lease.
type RingShard struct {
	ring, name string
	// returns tells that the shard will be back soon when it stops, so that its slots wait for it.
	returns bool
	client  client.Reader
	leases  coordinationv1.LeasesGetter
	roll    *members.Roll
	log     logr.Logger
	// now is the wall clock, which stands in the Lease and by which nothing is decided.
	now, monotonic func() time.Time

	mu sync.Mutex
	// tenancy is that of now; nil is none. arrived is closed when there is one.
	tenancy *Tenancy
	arrived chan struct{}
	// using are those that have joined it and are not done.
	using *sync.WaitGroup
	// last is the incarnation that has ended last.
	last string
	told map[int]func()
	next int
}

// RingShardOptions are those of a shard.
type RingShardOptions struct {
	// Ring is the name of the ClusterRing, and Name that of the shard, which no other process has at the same time.
	Ring, Name string
	// Returns tells that the shard will be back soon whenever it stops.
	Returns bool
	// Leases of the core cluster.
	Leases coordinationv1.LeasesGetter
	// Now is the wall clock; nil is the machine's.
	Now func() time.Time
}

// NewRingShard adds a shard to the manager of a core cluster whose cache holds the Leases of shards; see members.Select.
func NewRingShard(ctx context.Context, mgr manager.Manager, options RingShardOptions) (*RingShard, error) {
	s := &RingShard{
		ring: options.Ring, name: options.Name, returns: options.Returns, client: mgr.GetClient(), leases: options.Leases,
		log: mgr.GetLogger().WithValues("ring", options.Ring, "shard", options.Name), now: options.Now, monotonic: time.Now,
		arrived: make(chan struct{}), told: map[int]func(){},
	}
	if s.now == nil {
		s.now = time.Now
	}
	// Any shard may take a Lease from one that is silent: it is a compare-and-swap.
	roll, err := members.NewRoll(ctx, mgr, func() bool { return true })
	if err != nil {
		return nil, err
	}
	s.roll = roll
	roll.Tell(func(name string) {
		if name == s.ring {
			s.tell()
		}
	})
	if err := mgr.AddReadyzCheck("ring", s.ready); err != nil {
		return nil, err
	}
	return s, mgr.Add(s)
}

// ready is true when the ring is there. A shard may still wait for the Lease that it had before it was restarted.
func (s *RingShard) ready(request *http.Request) error {
	_, err := s.of(request.Context())
	return err
}

// Ring implements Membership.
func (s *RingShard) Ring() string { return s.ring }

// Name implements Membership.
func (s *RingShard) Name() string { return s.name }

// NeedLeaderElection is false: each shard works.
func (s *RingShard) NeedLeaderElection() bool { return false }

// Start holds the shard's Lease, under one incarnation after the other, until ctx ends.
func (s *RingShard) Start(ctx context.Context) error {
	var last string
	for ctx.Err() == nil {
		if err := s.once(ctx); err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			s.log.Error(err, "Not a shard of the ring")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// once takes the Lease and keeps it, until it is lost or ctx ends.
func (s *RingShard) once(ctx context.Context) error {
	of, err := s.of(ctx)
	if err != nil {
		return err
	}
	lease := &shardLease{
		leases: s.leases.Leases(of.Spec.ShardNamespace), ring: s.ring, name: s.name, holder: s.name + "_" + string(uuid.NewUUID()),
		before: s.last, seconds: of.Spec.LeaseDurationSeconds, now: s.now, monotonic: s.monotonic,
	}
	if err := lease.acquire(ctx); err != nil {
		return err
	}
	s.log.Info("A shard of the ring", "holder", lease.holder)
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	using := &sync.WaitGroup{}
	s.arrive(&Tenancy{Holder: lease.holder, Context: held, Held: lease.held, Done: using.Done}, using)
	err = lease.keep(ctx)
	s.arrive(nil, nil)
	if err == nil {
		err = errors.New("the process stops")
	}
	lose(err)
	s.log.Info("No longer a shard of the ring", "holder", lease.holder, "reason", err.Error())
	if ctx.Err() != nil {
		s.stop(ctx, lease, using)
	}
	using.Wait() // nothing of this incarnation is left when the next one begins
	s.last = lease.holder
	return nil
}

// stop gives the Lease up when all have ended that go by it. It is renewed no more: who takes longer than it lasts is waited for
// as if the shard had crashed.
func (s *RingShard) stop(ctx context.Context, lease *shardLease, using *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		using.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(lease.left()):
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := lease.giveUp(ctx, s.returns); err != nil {
		s.log.V(1).Info("The Lease is not given up", "error", err.Error())
	}
}

// of returns the ring.
func (s *RingShard) of(ctx context.Context) (*v1alpha1.ClusterRing, error) {
	of := &v1alpha1.ClusterRing{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: s.ring}, of); err != nil {
		return nil, fmt.Errorf("read ClusterRing %s: create it, or correct --ring: %w", s.ring, err)
	}
	return of, nil
}

func (s *RingShard) arrive(tenancy *Tenancy, using *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenancy, s.using = tenancy, using
	if tenancy == nil {
		s.arrived = make(chan struct{})
		return
	}
	close(s.arrived)
}

// Join implements Membership.
func (s *RingShard) Join(ctx context.Context) (*Tenancy, error) {
	for {
		s.mu.Lock()
		tenancy, arrived := s.tenancy, s.arrived
		if tenancy != nil {
			s.using.Add(1)
		}
		s.mu.Unlock()
		if tenancy != nil {
			return tenancy, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-arrived:
		}
	}
}

// Shards implements Membership.
func (s *RingShard) Shards(ctx context.Context) (*ring.Shards, bool) {
	of, err := s.of(ctx)
	if err != nil || !s.roll.HasSynced() {
		return nil, false
	}
	return s.roll.Shards(of), true
}

// MayWork implements Membership.
func (s *RingShard) MayWork(ctx context.Context, shard string) (bool, error) {
	of, err := s.of(ctx)
	if err != nil {
		return true, err
	}
	lease := &shardLease{leases: s.leases.Leases(of.Spec.ShardNamespace), ring: s.ring, name: shard}
	return lease.mayWork(ctx)
}

// Tell implements Membership.
func (s *RingShard) Tell(changed func()) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := s.next
	s.told[id] = changed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.told, id)
	}
}

func (s *RingShard) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.told {
		changed()
	}
}
