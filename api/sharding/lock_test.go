package sharding

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func TestAShardMakesItsLease(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.enter("1", false).wantHeld(true, "at once")
		lease := s.lease()
		if lease.Labels[v1alpha1.LabelRing] != "r" || ring.HolderOf(lease) != "a_1" || *lease.Spec.LeaseDurationSeconds != 15 || lease.Spec.RenewTime == nil {
			s.Errorf("the Lease is %v %v", lease.Labels, lease.Spec)
		}
		pass(10 * time.Minute)
		if since := time.Since(s.lease().Spec.RenewTime.Time); since > 2*time.Second {
			s.Errorf("it was renewed %s ago", since)
		}
	})
}

func TestWhenALeaseIsTaken(t *testing.T) {
	for claim, of := range map[string]struct {
		ring, holder string
		after        time.Duration // 0 is at once, negative is never
	}{
		"at once when it was given up or buried":                              {"r", "", 0},
		"at once when the shard was stopped and is to come back":              {"r", "a_", 0},
		"after its duration when the former incarnation may still work":       {"r", "a_0", lasts},
		"after its duration when somebody unknown has it":                     {"r", "somebody", lasts},
		"after twice its duration when the sharder has taken it":              {"r", ring.Revoked, 2 * lasts},
		"after its duration when somebody has taken its label off":            {"", "a_0", lasts},
		"never when it is another ring's":                                     {"other", "a_0", -1},
		"never when it is another ring's and nobody has it":                   {"other", "", -1},
		"never when it is no shard's, as that of a leader election":           {"", "somebody", -1},
		"never when it is no shard's and nobody has it":                       {"", "", -1},
		"at once when somebody has taken the label off of one that was to be": {"", "a_", 0},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, leaseOf(of.ring, of.holder), func(s *stage) {
				a := s.enter("1", false)
				a.wantHeld(of.after == 0, "at once")
				if of.after > 0 {
					pass(of.after - time.Millisecond)
					a.wantHeld(false, "a little before")
				}
				pass(max(of.after, 0) + 5*time.Second)
				a.wantHeld(of.after >= 0, "later")
				if of.after < 0 {
					pass(time.Hour)
					if s.wantHolder(of.holder); s.writes.Load() > 0 {
						s.Errorf("it was written %d times", s.writes.Load())
					}
				} else if s.lease().Labels[v1alpha1.LabelRing] != "r" {
					s.Error("it has no label")
				}
			})
		})
	}
}

func TestAFormerIncarnationIsWaitedForAsLongAsItRenews(t *testing.T) {
	onStage(t, leaseOf("r", "a_0"), func(s *stage) {
		a := s.enter("1", false)
		for range 20 {
			pass(10 * time.Second)
			// The record of client-go's elector has whole seconds, and cannot distinguish this renewal from the last.
			s.change(func(l *coordinationv1.Lease) {
				same := metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Microsecond))
				l.Spec.RenewTime = &same
			})
			a.wantHeld(false, "while the former one renews")
		}
		pass(lasts + 10*time.Second)
		a.wantHeld(true, "when it does not any more")
	})
}

func TestARevokedLeaseIsTakenWhenItWasEmptied(t *testing.T) {
	onStage(t, leaseOf("r", ring.Revoked), func(s *stage) {
		a := s.enter("1", false)
		pass(5 * time.Second)
		s.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" })
		pass(5 * time.Second)
		a.wantHeld(true, "soon")
	})
}

func TestOfTwoIncarnationsOneWorks(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		first, second := s.enter("1", false), s.enter("2", false)
		pass(time.Hour)
		first.wantHeld(true, "the first")
		second.wantHeld(false, "the second")
		first.stop()
		pass(5 * time.Second)
		first.wantHeld(false, "the first, stopped")
		second.wantHeld(true, "the second, after that")
	})
}

func TestALeaseThatWasLostIsLostForEver(t *testing.T) {
	for claim, of := range map[string]struct {
		lose   func(*coordinationv1.Lease)
		says   string
		holder string // at the end
	}{
		"buried by the sharder":                           {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" }, "fallen silent", ""},
		"buried, and stopped with a name to come back to": {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_" }, `taken by "a_"`, "a_"},
		"taken by another incarnation":                    {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" }, "another process runs under the same name", "a_2"},
		"given to another ring":                           {func(l *coordinationv1.Lease) { l.Labels[v1alpha1.LabelRing] = "other" }, `ring "other"`, "a_1"},
		"taken by the sharder":                            {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = ring.Revoked }, "drainTimeoutSeconds", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				a := s.enter("1", true)
				pass(time.Minute)
				s.change(of.lose)
				pass(4 * time.Second)
				a.wantHeld(false, "soon after")
				if err := a.lock.hold.err(); !errors.Is(err, ErrNotHeld) || !strings.Contains(err.Error(), of.says) {
					s.Errorf("it says %v, want %q", err, of.says)
				}
				lost := s.lease().ResourceVersion
				pass(time.Hour)
				a.wantHeld(false, "an hour later")
				<-a.ended // the elector has stopped by then
				s.wantHolder(of.holder)
				if of.holder != "" && s.lease().ResourceVersion != lost {
					s.Error("it was written again")
				}
			})
		})
	}
}

func TestALeaseThatWasDeletedIsNotMadeAgain(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		a := s.enter("1", true)
		pass(time.Minute)
		if err := s.client.Delete(s.Context(), s.lease()); err != nil {
			t.Fatal(err)
		}
		pass(4 * time.Second)
		a.wantHeld(false, "soon after")
		pass(time.Hour)
		if err := s.client.Get(s.Context(), a.lock.key, &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
			s.Errorf("there is one again: %v", err)
		}
	})
}

func TestALeaseThatWasDeletedAndMadeAnewIsLost(t *testing.T) {
	onStage(t, leaseOf("r", ""), func(s *stage) {
		a := s.enter("1", true)
		pass(time.Minute)
		lease := s.lease()
		if err := s.client.Delete(s.Context(), lease); err != nil {
			t.Fatal(err)
		}
		lease.UID, lease.ResourceVersion = "another", ""
		if err := s.client.Create(s.Context(), lease); err != nil {
			t.Fatal(err)
		}
		pass(4 * time.Second)
		a.wantHeld(false, "soon after, although it says what it has said")
		s.wantHolder("a_1")
	})
}

func TestALabelThatWasTakenOffIsPutBack(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		a := s.enter("1", true)
		s.change(func(l *coordinationv1.Lease) { l.Labels = nil })
		pass(5 * time.Second)
		a.wantHeld(true, "after")
		if s.lease().Labels[v1alpha1.LabelRing] != "r" {
			s.Error("it has no label")
		}
	})
}

func TestAnApiserverThatIsAway(t *testing.T) {
	for claim, of := range map[string]struct {
		away   time.Duration
		held   bool
		holder string // at the end
	}{
		"for less than the Lease lasts is survived":                   {11 * time.Second, true, "a_1"},
		"for longer ends the hold, and nothing is written after that": {16 * time.Second, false, "a_1"},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				a := s.enter("1", false)
				pass(time.Minute)
				until := a.lock.hold.until()
				s.away.Store(true)
				pass(of.away)
				if !of.held {
					pass(time.Until(until) - time.Nanosecond)
				}
				s.away.Store(false)
				pass(4 * time.Second)
				a.wantHeld(of.held, "later")
				pass(time.Hour)
				a.wantHeld(of.held, "in the end")
				s.wantHolder(of.holder)
			})
		})
	}
}

func TestAnAnswerThatIsLostChangesNothing(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.silent.Store(true)
		a := s.enter("1", false)
		pass(5 * time.Second)
		a.wantHeld(false, "before anybody has said so")
		s.wantHolder("a_1")
		s.silent.Store(false)
		pass(5 * time.Second)
		a.wantHeld(true, "soon after")
		pass(time.Minute)
		s.silent.Store(true)
		pass(10 * time.Second)
		s.silent.Store(false)
		pass(time.Minute)
		a.wantHeld(true, "after other ones")
	})
}

func TestALeaseThatLastsForEverIsNotWaitedForThatLong(t *testing.T) {
	lease := leaseOf("r", "a_0")
	*lease.Spec.LeaseDurationSeconds = math.MaxInt32
	onStage(t, lease, func(s *stage) {
		a := s.enter("1", false)
		pass(lasts + 5*time.Second)
		a.wantHeld(true, "after what the ring says")
	})
}

func TestAHoldEndsToTheMoment(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		a := s.enter("1", false)
		pass(time.Minute)
		s.away.Store(true)
		ctx, cancel := a.lock.hold.context(s.Context())
		defer cancel()
		pass(time.Until(a.lock.hold.until()) - time.Nanosecond)
		if ctx.Err() != nil {
			s.Error("the context has ended before")
		}
		a.wantHeld(true, "until the end")
		pass(time.Nanosecond)
		a.wantHeld(false, "at the end")
		if !errors.Is(context.Cause(ctx), ErrNotHeld) {
			s.Errorf("the context's cause is %v", context.Cause(ctx))
		}
	})
}
