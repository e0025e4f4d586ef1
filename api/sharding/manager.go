package sharding

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// NewManager creates a manager that works while the shard holds its Lease, and ends with an error when the shard has lost it. The
// process must then exit: a new Shard cannot replace one that has ended.
func (s *Shard) NewManager(options manager.Options) (manager.Manager, error) {
	if err := s.Configure(&options); err != nil {
		return nil, err
	}
	mgr, err := manager.New(s.config, options)
	if err != nil {
		return nil, err
	}
	for _, object := range s.objects {
		if err := s.checkAssigned(mgr, object, false); err != nil {
			return nil, err
		}
	}
	return mgr, mgr.Add(s)
}

// Configure sets the options of a manager for the shard, for callers that cannot use NewManager. Add the Shard to the manager
// afterwards. Otherwise the manager ends only some time after the Lease was lost.
//
// Configure replaces all leader election options: the manager elects no other leader. The manager's client is wrapped as by
// Client, and its connections are fenced unless the options have an HTTPClient. The manager's cache holds the shard's objects.
// Use a Shard for one manager only.
func (s *Shard) Configure(options *manager.Options) error {
	options.LeaderElection, options.LeaderElectionResourceLockInterface = true, s.lock
	options.LeaderElectionReleaseOnCancel = true
	lasts, renew, retry := s.lock.electorTiming()
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lasts, &renew, &retry

	kinds := options.Scheme
	if kinds == nil {
		kinds = scheme.Scheme
	}
	if err := s.restrictCache(&options.Cache, kinds, s.objects); err != nil {
		return err
	}
	fenced := options.NewClient
	if fenced == nil {
		fenced = client.New
	}
	fenced = s.hold.fencedConnections(fenced, options.Client.HTTPClient != nil)
	options.NewClient = func(config *rest.Config, of client.Options) (client.Client, error) {
		inner, err := fenced(config, of)
		if err != nil {
			return nil, err
		}
		return s.Client(inner), nil
	}
	return nil
}

// Start implements manager.Runnable. It ends with an error when the Lease is lost.
func (s *Shard) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-s.hold.ended.Done():
	}
	if lost := s.hold.Lost(); lost != nil {
		return fmt.Errorf("shard %s of ring %s has lost its Lease, and the process must restart: %w", s.name, s.ring, lost)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *Shard) NeedLeaderElection() bool { return false }
