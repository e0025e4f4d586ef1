package sharding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// runner is an incarnation of shard a in Run.
type runner struct {
	*stage
	shard *Shard
	stop  context.CancelFunc
	// work is the context of its work once that has begun. err is the result of Run when ended is closed.
	work  context.Context
	err   error
	ended chan struct{}
}

// run starts an incarnation whose work continues for a while after its context has ended.
func (s *stage) run(incarnated string, stable bool, after *Shard, while time.Duration) *runner {
	l := s.lockOf(incarnated, stable)
	l.former = after.former()
	r := &runner{stage: s, ended: make(chan struct{}), shard: &Shard{ring: "r", name: "a", hold: l.hold, work: l.work, lock: l}}
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

func TestTheLeaseIsGivenUpWhenWorkHasEnded(t *testing.T) {
	for claim, of := range map[string]struct {
		stable bool
		while  time.Duration
		before func(*runner)
		holder string
	}{
		"at once, to nobody":                          {false, 0, func(*runner) {}, ""},
		"at once, to the next of the name":            {true, 0, func(*runner) {}, "a_"},
		"later, to nobody":                            {false, lasts / 2, func(*runner) {}, ""},
		"later, to the next of the name":              {true, lasts / 2, func(*runner) {}, "a_"},
		"and not when it had lapsed by then":          {false, 2 * lasts, func(*runner) {}, "a_1"},
		"and not while the apiserver is away":         {false, 0, func(r *runner) { r.away.Store(true) }, "a_1"},
		"and not while the apiserver answers nothing": {false, 0, func(r *runner) { r.hanging.Store(true) }, "a_1"},
		"and not when another one has it": {false, 0, func(r *runner) {
			r.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" })
		}, "a_2"},
		"to nobody when the sharder has taken it in the same moment": {true, 0, func(r *runner) {
			r.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = ring.Revoked })
		}, ""},
		"also when somebody has written it in the same moment": {false, 0, func(r *runner) {
			r.change(func(l *coordinationv1.Lease) { l.Labels["team"] = "x" })
		}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				r := s.run("1", of.stable, nil, of.while)
				pass(time.Minute)
				of.before(r)
				before := s.lease().Spec.HolderIdentity
				r.stop()
				if synctest.Wait(); r.work.Err() == nil {
					t.Fatal("work is not told to end")
				}
				if of.while > 0 {
					pass(of.while - time.Second - 1)
					s.wantHolder(*before)
					r.wantHeld(of.while < lasts, "while work ends")
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
	change := func(holder string) func(*stage) {
		return func(s *stage) { s.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = holder }) }
	}
	for claim, of := range map[string]struct {
		lose   func(*stage)
		within time.Duration
		says   string
		holder string // at the end
	}{
		"to another one":                            {change("a_2"), 4 * time.Second, `taken by "a_2"`, "a_2"},
		"since it was buried":                       {change(""), 4 * time.Second, "fallen silent", ""},
		"since the apiserver is away":               {func(s *stage) { s.away.Store(true) }, lasts, "not renewed for 15s", "a_1"},
		"since the apiserver answers nothing":       {func(s *stage) { s.hanging.Store(true) }, lasts, "not renewed for 15s", "a_1"},
		"to the sharder, and gives up what it lost": {change(ring.Revoked), 4 * time.Second, "drainTimeoutSeconds", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				const while = time.Minute
				r := s.run("1", true, nil, while)
				pass(time.Minute)
				of.lose(s)
				lost := s.lease().ResourceVersion
				pass(of.within)
				r.wantHeld(false, "soon after")
				if cause := context.Cause(r.work); !errors.Is(cause, ErrNotHeld) || !strings.Contains(cause.Error(), of.says) {
					t.Errorf("the context of work ends with %v, want %q", cause, of.says)
				}
				pass(while - of.within)
				if s.lease().ResourceVersion != lost {
					t.Errorf("the Lease is written while work has not ended: %v", s.lease().Spec)
				}
				<-r.ended
				s.wantHolder(of.holder)
				if !errors.Is(r.err, ErrNotHeld) || !strings.Contains(r.err.Error(), of.says) {
					t.Errorf("it says %v, want %q", r.err, of.says)
				}
			})
		})
	}
}

func TestTheFormerIncarnationOfAProcess(t *testing.T) {
	for claim, of := range map[string]struct {
		change func(former *Shard)
		waits  bool
	}{
		"is not waited for":                                        {func(*Shard) {}, false},
		"is waited for while something of it is left":              {func(s *Shard) { s.work.begin(job{}) }, true},
		"is waited for while a write of it may still take effect":  {func(s *Shard) { s.work.write()(true) }, true},
		"is not waited for when its last unknown write was before": {func(s *Shard) { s.work.write()(true); pass(lasts) }, false},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				former := s.run("1", false, nil, 0)
				pass(time.Minute)
				s.away.Store(true)
				<-former.ended
				of.change(former.shard)
				s.away.Store(false)
				next := s.run("2", false, former.shard, 0)
				next.wantHeld(!of.waits, "at once")
				pass(lasts + 5*time.Second)
				next.wantHeld(true, "later")
			})
		})
	}
	onStage(t, nil, func(s *stage) {
		former := s.run("1", false, nil, 2*lasts)
		pass(time.Minute)
		s.away.Store(true)
		pass(lasts)
		former.wantHeld(false, "after the Lease has lapsed")
		s.away.Store(false)
		next := s.run("2", false, former.shard, 0)
		next.wantHeld(false, "while work of the former one goes on")
	})
	onStage(t, nil, func(s *stage) {
		a := s.enter("1", false)
		next := s.run("2", false, &Shard{hold: a.lock.hold, work: a.lock.work, lock: a.lock}, 0)
		pass(time.Hour)
		next.wantHeld(false, "while the former one has the Lease")
	})
}

func TestWorkThatEndsByItselfEndsTheRun(t *testing.T) {
	onStage(t, nil, func(s *stage) {
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

func TestARunThatIsStoppedWhileItWaitsWritesNothing(t *testing.T) {
	onStage(t, leaseOf("r", "a_0"), func(s *stage) {
		r := s.run("1", false, nil, 0)
		pass(5 * time.Second)
		r.stop()
		<-r.ended
		if s.wantHolder("a_0"); r.err != nil || r.work != nil || s.writes.Load() > 0 {
			t.Errorf("error %v, work %v, %d writes", r.err, r.work, s.writes.Load())
		}
	})
}
