package sharding

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/util/retry"
)

// Run is for those who have no manager, or go on when the Lease is lost. It waits for the Lease, calls work, and returns when that has: nil
// when ctx has ended or work has by itself, and ErrNotHeld with the reason when the Lease was lost.
//
// The context of work ends with ctx and with the hold on the Lease, and its cause is that error then. From then on the
// Lease is not renewed any more. It is given up when work has returned, and left to lapse when that takes longer than it lasts: so work
// must not return before all that it has begun has ended.
//
// A Shard is run once. Who goes on after that makes a new one, and tells it by Options.After of the one before.
func (s *Shard) Run(ctx context.Context, work func(ctx context.Context)) error {
	held, stop := s.Context(ctx)
	defer stop()
	begun := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(s.lock.election(func(context.Context) { close(begun) }))
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
		s.work.begin(job{})
		work(held)
		s.work.end(job{})
	case <-ended:
	}
	lost := context.Cause(held)
	stop()
	<-ended
	s.leave(context.WithoutCancel(ctx))
	if errors.Is(lost, ErrNotHeld) {
		return fmt.Errorf("shard %s of ring %s: %w", s.name, s.ring, lost)
	}
	return nil
}

// election is how an elector holds the Lease. It does not give it up by itself, which it would do while somebody still works.
func (l *lock) election(begin func(context.Context)) leaderelection.LeaderElectionConfig {
	config := leaderelection.LeaderElectionConfig{
		Lock: l, Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: begin, OnStoppedLeading: func() {}},
	}
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = l.timing()
	return config
}

// leave ends the hold, and gives the Lease up if it can be.
func (s *Shard) leave(ctx context.Context) {
	defer s.hold.end(errStopped)
	if lost := s.hold.Lost(); !s.hold.joined() || lost != nil && !errors.Is(lost, errRevoked) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.lock.duration)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		// A renewal can have been stored whose answer nobody has waited for.
		if _, _, err := s.lock.Get(ctx); err != nil {
			return err
		}
		return s.lock.giveUp(ctx)
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("The Lease of the shard is left to lapse", "ring", s.ring, "shard", s.name, "reason", err.Error())
	}
}

// former is its identity when it is over and nothing of it can be still to come, so that nobody need wait for it; otherwise empty.
func (s *Shard) former() string {
	if s == nil || s.hold.over.Err() == nil || !s.work.isOver(s.lock.duration) {
		return ""
	}
	return s.lock.identity
}
