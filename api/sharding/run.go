package sharding

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/util/retry"
)

// Run is for callers that have no manager, or that continue when the Lease is lost. It waits for the Lease, calls work, and
// returns after work has returned. It returns nil if ctx ended or work returned by itself, and ErrNotHeld with the reason if the
// Lease was lost.
//
// The context of work ends with ctx, and when the shard stops holding the Lease. In the second case its cause is the error above.
// From then on Run does not renew the Lease. When work has returned, Run releases the Lease, so work must not return before
// everything that it started has ended. If the release takes longer than the Lease duration, Run leaves the Lease to expire.
//
// A Shard runs once. A caller that continues afterwards creates a new one, and passes the old one in Options.After.
func (s *Shard) Run(ctx context.Context, work func(ctx context.Context)) error {
	held, stop := s.Context(ctx)
	defer stop()
	begun := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(s.lock.electionConfig(func(context.Context) { close(begun) }))
	if err != nil {
		return fmt.Errorf("run shard %s: %w", s.name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(held)
	}()
	select {
	case <-begun:
		s.work.begin(job{}) // the empty job is work: the Lease stays until it ends
		work(held)
		s.work.end(job{})
	case <-ended:
	}
	lost := context.Cause(held)
	stop()
	<-ended
	s.releaseLease(context.WithoutCancel(ctx))
	if errors.Is(lost, ErrNotHeld) {
		return fmt.Errorf("shard %s of ring %s: %w", s.name, s.ring, lost)
	}
	return nil
}

// electionConfig configures an elector for the Lease. The elector does not release the Lease by itself, because work may still be in
// progress then.
func (l *lock) electionConfig(begin func(context.Context)) leaderelection.LeaderElectionConfig {
	config := leaderelection.LeaderElectionConfig{
		Lock: l, Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: begin, OnStoppedLeading: func() {}},
	}
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = l.electorTiming()
	return config
}

// releaseLease ends the hold, and releases the Lease if possible.
func (s *Shard) releaseLease(ctx context.Context) {
	defer s.hold.end(errStopped)
	// A revoked Lease has no other holder, so it can still be released.
	if lost := s.hold.Lost(); !s.hold.hasJoined() || lost != nil && !errors.Is(lost, errRevoked) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.lock.duration)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		// The API server may have stored a renewal whose answer the elector did not wait for.
		if _, _, err := s.lock.Get(ctx); err != nil {
			return err
		}
		return s.lock.release(ctx)
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Left the Lease of the shard to expire", "ring", s.ring, "shard", s.name, "reason", err.Error())
	}
}

// endedIdentity returns the shard's identity if it has ended and none of its work can still take effect, so that the next incarnation
// need not wait for it. Otherwise it returns the empty string.
func (s *Shard) endedIdentity() string {
	if s == nil || s.hold.ended.Err() == nil || !s.work.isFinished(s.lock.duration) {
		return ""
	}
	return s.lock.identity
}
