package ownership

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
	tracker *members.ShardTracker
	log     logr.Logger

	mu sync.Mutex
	// incarnation is the current one; nil if there is none. incarnationSet is closed when there is one.
	incarnation    *Incarnation
	incarnationSet chan struct{}
	// users counts those that have joined the incarnation and are not done.
	users        *sync.WaitGroup
	listeners    map[int]func()
	nextListener int
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
		log:            mgr.GetLogger().WithValues("ring", options.Ring, "shard", options.Name),
		incarnationSet: make(chan struct{}), listeners: map[int]func(){},
	}
	// Any shard may take the Lease of a silent shard: it is a compare-and-swap.
	tracker, err := members.NewShardTracker(ctx, mgr, func() bool { return true })
	if err != nil {
		return nil, err
	}
	s.tracker = tracker
	tracker.OnChange(func(name string) {
		if name == s.ring {
			s.notifyChanged()
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
	_, err := s.readRing(request.Context())
	return err
}

// Ring returns the name of the ring.
func (s *RingShard) Ring() string { return s.ring }

// Name returns the name of the shard.
func (s *RingShard) Name() string { return s.name }

// NeedLeaderElection returns false: every shard is active.
func (s *RingShard) NeedLeaderElection() bool { return false }

// Start holds the shard's Lease, in one incarnation after the other, until ctx ends.
func (s *RingShard) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, s.log)
	var last *sharding.Shard
	var lastReason string
	for ctx.Err() == nil {
		shard, err := sharding.New(ctx, s.config, sharding.Options{Ring: s.ring, Name: s.name, Stable: s.returns, After: last})
		switch {
		case err == nil:
			s.runIncarnation(ctx, shard)
			last, lastReason = shard, ""
		case ctx.Err() == nil && err.Error() != lastReason:
			lastReason = err.Error()
			s.log.Error(err, "Failed to join the ring")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// runIncarnation runs one incarnation of the shard. It returns when the Lease is lost or ctx ends, and all that joined the
// incarnation are done.
func (s *RingShard) runIncarnation(ctx context.Context, shard *sharding.Shard) {
	reason := "the process stops"
	err := shard.Run(ctx, func(ctx context.Context) {
		s.log.Info("Joined the ring", "holder", shard.Identity())
		users := &sync.WaitGroup{}
		// The incarnation ends only after no caller can join it any more, so that a caller that joins again waits for the
		// next one.
		incarnation, end := context.WithCancelCause(context.WithoutCancel(ctx))
		s.setIncarnation(&Incarnation{Holder: shard.Identity(), Context: incarnation, IsHeld: shard.Held, Done: users.Done}, users)
		<-ctx.Done()
		s.setIncarnation(nil, nil)
		end(context.Cause(ctx))
		users.Wait()
	})
	if err != nil {
		reason = err.Error()
	}
	s.log.Info("Left the ring", "holder", shard.Identity(), "reason", reason)
}

// readRing reads the ring.
func (s *RingShard) readRing(ctx context.Context) (*v1alpha1.ClusterRing, error) {
	clusterRing := &v1alpha1.ClusterRing{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: s.ring}, clusterRing); err != nil {
		return nil, fmt.Errorf("read ClusterRing %s: create it, or correct --ring: %w", s.ring, err)
	}
	return clusterRing, nil
}

func (s *RingShard) setIncarnation(incarnation *Incarnation, users *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incarnation, s.users = incarnation, users
	if incarnation == nil {
		s.incarnationSet = make(chan struct{})
		return
	}
	close(s.incarnationSet)
}

// Join waits until this process is the shard.
func (s *RingShard) Join(ctx context.Context) (*Incarnation, error) {
	for {
		s.mu.Lock()
		incarnation, incarnationSet := s.incarnation, s.incarnationSet
		if incarnation != nil {
			s.users.Add(1)
		}
		s.mu.Unlock()
		if incarnation != nil {
			return incarnation, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-incarnationSet:
		}
	}
}

// Shards returns the shards of the ring that can have slots; ok is false while they are unknown.
func (s *RingShard) Shards(ctx context.Context) (shards *ring.Shards, ok bool) {
	clusterRing, err := s.readRing(ctx)
	if err != nil || !s.tracker.HasSynced() {
		return nil, false
	}
	return s.tracker.Shards(clusterRing), true
}

// IsStopped asks the API server whether a shard has certainly stopped: its Lease was released, or has not been renewed for long.
func (s *RingShard) IsStopped(ctx context.Context, shard string) (bool, error) {
	clusterRing, err := s.readRing(ctx)
	if err != nil {
		return false, err
	}
	return s.tracker.IsGone(ctx, clusterRing, shard)
}

// OnChange calls changed whenever the result of Shards may have changed, until forget is called. changed must not block.
func (s *RingShard) OnChange(changed func()) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextListener++
	id := s.nextListener
	s.listeners[id] = changed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, id)
	}
}

func (s *RingShard) notifyChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.listeners {
		changed()
	}
}

// Incarnation is one incarnation of a shard: the time for which a process holds its Lease.
type Incarnation struct {
	// Holder identifies the incarnation. No two incarnations have the same Holder.
	Holder string
	// Context ends when the Lease was released, taken by another process or not renewed in time.
	Context context.Context //nolint:containedctx // its lifetime is that of the incarnation
	// IsHeld reports whether the process may still rely on the Lease at this moment.
	IsHeld func() bool
	// Done must be called when all work of the incarnation has ended. The Lease is then released.
	Done func()
}
