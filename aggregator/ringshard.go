package aggregator

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// RingShard is a shard of a ClusterRing, held by its Lease, in one incarnation after the other.
type RingShard struct {
	ring, name string
	// returns reports that the shard comes back soon after it stops, so that its slots wait for it.
	returns bool
	client  client.Reader
	config  *rest.Config
	roll    *members.Roll
	log     logr.Logger

	mu sync.Mutex
	// tenancy is the current one; nil if there is none. arrived is closed when there is one.
	tenancy *Tenancy
	arrived chan struct{}
	// using counts those that have joined the tenancy and are not done.
	using *sync.WaitGroup
	told  map[int]func()
	next  int
}

// RingShardOptions configure a shard.
type RingShardOptions struct {
	// Ring is the name of the ClusterRing. Name is the name of the shard, which no other process uses at the same time.
	Ring, Name string
	// Returns means that the shard comes back soon whenever it stops.
	Returns bool
}

// NewRingShard adds a shard to the manager of a core cluster whose cache has the Leases of shards; see members.Select.
func NewRingShard(ctx context.Context, mgr manager.Manager, options RingShardOptions) (*RingShard, error) {
	s := &RingShard{
		ring: options.Ring, name: options.Name, returns: options.Returns, client: mgr.GetClient(), config: mgr.GetConfig(),
		log:     mgr.GetLogger().WithValues("ring", options.Ring, "shard", options.Name),
		arrived: make(chan struct{}), told: map[int]func(){},
	}
	// Any shard may take the Lease of a silent shard: it is a compare-and-swap.
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

// ready returns an error if the ring does not exist. A ready shard may still wait for the Lease that it held before a
// restart.
func (s *RingShard) ready(request *http.Request) error {
	_, err := s.of(request.Context())
	return err
}

// Ring implements Membership.
func (s *RingShard) Ring() string { return s.ring }

// Name implements Membership.
func (s *RingShard) Name() string { return s.name }

// NeedLeaderElection returns false: every shard is active.
func (s *RingShard) NeedLeaderElection() bool { return false }

// Start holds the shard's Lease, in one incarnation after the other, until ctx ends.
func (s *RingShard) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, s.log)
	var last *sharding.Shard
	var told string
	for ctx.Err() == nil {
		shard, err := sharding.New(ctx, s.config, sharding.Options{Ring: s.ring, Name: s.name, Stable: s.returns, After: last})
		switch {
		case err == nil:
			s.incarnate(ctx, shard)
			last, told = shard, ""
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			s.log.Error(err, "Not a shard of the ring")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// incarnate runs one incarnation of the shard. It returns when the Lease is lost or ctx ends, and all that joined the
// incarnation are done.
func (s *RingShard) incarnate(ctx context.Context, shard *sharding.Shard) {
	reason := "the process stops"
	err := shard.Run(ctx, func(ctx context.Context) {
		s.log.Info("A shard of the ring", "holder", shard.Identity())
		using := &sync.WaitGroup{}
		// The tenancy ends only after no caller can join it any more, so that a caller that joins again waits for the
		// next one.
		tenancy, end := context.WithCancelCause(context.WithoutCancel(ctx))
		s.arrive(&Tenancy{Holder: shard.Identity(), Context: tenancy, Held: shard.Held, Done: using.Done}, using)
		<-ctx.Done()
		s.arrive(nil, nil)
		end(context.Cause(ctx))
		using.Wait()
	})
	if err != nil {
		reason = err.Error()
	}
	s.log.Info("No longer a shard of the ring", "holder", shard.Identity(), "reason", reason)
}

// of reads the ring.
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

// IsGone implements Membership.
func (s *RingShard) IsGone(ctx context.Context, shard string) (bool, error) {
	of, err := s.of(ctx)
	if err != nil {
		return false, err
	}
	return s.roll.IsGone(ctx, of, shard)
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
