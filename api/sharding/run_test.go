package sharding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
)

// runner is an incarnation of shard a in Run.
type runner struct {
	*fakeAPIServer
	shard *Shard
	stop  context.CancelFunc
	// work is the context of its work once that has begun. err is the result of Run when ended is closed.
	work  context.Context
	err   error
	ended chan struct{}
}

// run starts an incarnation whose work continues for a while after its context has ended.
func (s *fakeAPIServer) run(incarnated string, stable bool, after *Shard, while time.Duration) *runner {
	l := s.lockOf(incarnated, stable)
	l.predecessor = after.endedIdentity()
	r := &runner{fakeAPIServer: s, ended: make(chan struct{}), shard: &Shard{ring: "r", name: "a", hold: l.hold, work: l.work, lock: l}}
	ctx, stop := context.WithCancel(s.Context())
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.err = r.shard.Run(ctx, func(ctx context.Context) {
			r.work = ctx
			<-ctx.Done()
			<-time.After(while)
		})
	}()
	s.Cleanup(func() {
		stop()
		<-r.ended
	})
	synctest.Wait()
	return r
}

func (r *runner) wantHeld(want bool, when string) {
	r.Helper()
	synctest.Wait()
	if have := r.shard.Held(); have != want {
		r.Errorf("%s: held: %t, want %t", when, have, want)
	}
}

func TestLeaseIsReleasedAfterTheWork(t *testing.T) {
	for claim, of := range map[string]struct {
		stable bool
		while  time.Duration
		before func(*runner)
		holder string
	}{
		"at once, without a holder":                   {false, 0, func(*runner) {}, ""},
		"at once, to the next of the name":            {true, 0, func(*runner) {}, "a_"},
		"later, without a holder":                     {false, leaseDuration / 2, func(*runner) {}, ""},
		"later, to the next of the name":              {true, leaseDuration / 2, func(*runner) {}, "a_"},
		"and not when it had expired by then":         {false, 2 * leaseDuration, func(*runner) {}, "a_1"},
		"and not while the API server is unreachable": {false, 0, func(r *runner) { r.unreachable.Store(true) }, "a_1"},
		"and not while the API server is silent":      {false, 0, func(r *runner) { r.hanging.Store(true) }, "a_1"},
		"and not when another shard has it": {false, 0, func(r *runner) {
			r.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" })
		}, "a_2"},
		"without a holder after a concurrent revocation": {true, 0, func(r *runner) {
			r.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = leaseholder.Revoked })
		}, ""},
		"also after a concurrent write of another client": {false, 0, func(r *runner) {
			r.updateLease(func(l *coordinationv1.Lease) { l.Labels["team"] = "x" })
		}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				r := s.run("1", of.stable, nil, of.while)
				sleep(time.Minute)
				of.before(r)
				before := s.lease().Spec.HolderIdentity
				r.stop()
				if synctest.Wait(); r.work.Err() == nil {
					t.Fatal("context of work did not end")
				}
				if of.while > 0 {
					sleep(of.while - time.Second - 1)
					s.wantHolder(*before)
					r.wantHeld(of.while < leaseDuration, "while work ends")
				}
				<-r.ended
				r.wantHeld(false, "in the end")
				s.wantHolder(of.holder)
				if r.err != nil {
					t.Errorf("a stop is no error: %v", r.err)
				}
			})
		})
	}
}

func TestWorkEndsWhenTheLeaseIsLost(t *testing.T) {
	change := func(holder string) func(*fakeAPIServer) {
		return func(s *fakeAPIServer) {
			s.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = holder })
		}
	}
	for claim, of := range map[string]struct {
		lose   func(*fakeAPIServer)
		within time.Duration
		says   string
		holder string // at the end
	}{
		"to another one":                         {change("a_2"), 4 * time.Second, `taken by "a_2"`, "a_2"},
		"since it was revoked as expired":        {change(""), 4 * time.Second, "did not renew", ""},
		"since the API server is unreachable":    {func(s *fakeAPIServer) { s.unreachable.Store(true) }, leaseDuration, "not renewed for 15s", "a_1"},
		"since the API server is silent":         {func(s *fakeAPIServer) { s.hanging.Store(true) }, leaseDuration, "not renewed for 15s", "a_1"},
		"to the sharder, and releases the Lease": {change(leaseholder.Revoked), 4 * time.Second, "drainTimeoutSeconds", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				const while = time.Minute
				r := s.run("1", true, nil, while)
				sleep(time.Minute)
				of.lose(s)
				lost := s.lease().ResourceVersion
				sleep(of.within)
				r.wantHeld(false, "soon after")
				if cause := context.Cause(r.work); !errors.Is(cause, ErrNotHeld) || !strings.Contains(cause.Error(), of.says) {
					t.Errorf("cause of the work context = %v, want %q", cause, of.says)
				}
				sleep(while - of.within)
				if s.lease().ResourceVersion != lost {
					t.Errorf("the Lease is written while work has not ended: %v", s.lease().Spec)
				}
				<-r.ended
				s.wantHolder(of.holder)
				if !errors.Is(r.err, ErrNotHeld) || !strings.Contains(r.err.Error(), of.says) {
					t.Errorf("error = %v, want it to contain %q", r.err, of.says)
				}
			})
		})
	}
}

func TestPreviousIncarnationOfAProcess(t *testing.T) {
	for claim, of := range map[string]struct {
		change func(former *Shard)
		waits  bool
	}{
		"is not waited for":                                        {func(*Shard) {}, false},
		"is waited for while it has work left":                     {func(s *Shard) { s.work.begin(job{}) }, true},
		"is waited for while a write of it may still take effect":  {func(s *Shard) { s.work.write()(true) }, true},
		"is not waited for when its last unknown write was before": {func(s *Shard) { s.work.write()(true); sleep(leaseDuration) }, false},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				former := s.run("1", false, nil, 0)
				sleep(time.Minute)
				s.unreachable.Store(true)
				<-former.ended
				of.change(former.shard)
				s.unreachable.Store(false)
				next := s.run("2", false, former.shard, 0)
				next.wantHeld(!of.waits, "at once")
				sleep(leaseDuration + 5*time.Second)
				next.wantHeld(true, "later")
			})
		})
	}
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		former := s.run("1", false, nil, 2*leaseDuration)
		sleep(time.Minute)
		s.unreachable.Store(true)
		sleep(leaseDuration)
		former.wantHeld(false, "after the Lease has lapsed")
		s.unreachable.Store(false)
		next := s.run("2", false, former.shard, 0)
		next.wantHeld(false, "while the previous work continues")
	})
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		a := s.startIncarnation("1", false)
		next := s.run("2", false, &Shard{hold: a.lock.hold, work: a.lock.work, lock: a.lock}, 0)
		sleep(time.Hour)
		next.wantHeld(false, "while the former one has the Lease")
	})
}

func TestRunReturnsWhenTheWorkReturns(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		l := s.lockOf("1", true)
		shard, begun := &Shard{hold: l.hold, work: l.work, lock: l}, 0
		work := func(context.Context) { begun++ }
		if err := shard.Run(s.Context(), work); err != nil {
			t.Error(err)
		}
		s.wantHolder("a_")
		if err := shard.Run(s.Context(), work); !errors.Is(err, ErrNotHeld) || begun != 1 {
			t.Errorf("it runs again: %v, work was begun %d times", err, begun)
		}
	})
}

func TestRunStoppedWhileWaitingWritesNothing(t *testing.T) {
	withFakeAPIServer(t, leaseOf("r", "a_0"), func(s *fakeAPIServer) {
		r := s.run("1", false, nil, 0)
		sleep(5 * time.Second)
		r.stop()
		<-r.ended
		if s.wantHolder("a_0"); r.err != nil || r.work != nil || s.writes.Load() > 0 {
			t.Errorf("error %v, work %v, %d writes", r.err, r.work, s.writes.Load())
		}
	})
}
