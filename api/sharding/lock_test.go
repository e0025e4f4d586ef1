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

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestShardCreatesItsLease(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		s.startIncarnation("1", false).wantHeld(true, "at once")
		lease := s.lease()
		if lease.Labels[v1alpha1.LabelRing] != "r" || leaseholder.Of(lease) != "a_1" || *lease.Spec.LeaseDurationSeconds != 15 || lease.Spec.RenewTime == nil {
			s.Errorf("the Lease is %v %v", lease.Labels, lease.Spec)
		}
		sleep(10 * time.Minute)
		if since := time.Since(s.lease().Spec.RenewTime.Time); since > 2*time.Second {
			s.Errorf("it was renewed %s ago", since)
		}
	})
}

func TestWhenALeaseIsAcquired(t *testing.T) {
	for claim, of := range map[string]struct {
		ring, holder string
		after        time.Duration // 0 is at once, negative is never
	}{
		"at once when it was released or revoked as expired":                         {"r", "", 0},
		"at once when the shard stopped and returns":                                 {"r", "a_", 0},
		"after its duration when the previous incarnation may still work":            {"r", "a_0", leaseDuration},
		"after its duration with an unknown holder":                                  {"r", "unknown", leaseDuration},
		"after twice its duration when the sharder has taken it":                     {"r", leaseholder.Revoked, 2 * leaseDuration},
		"after its duration when another client removed its label":                   {"", "a_0", leaseDuration},
		"never when it is another ring's":                                            {"other", "a_0", -1},
		"never when it is another ring's without a holder":                           {"other", "", -1},
		"never when it is the Lease of a leader election":                            {"", "unknown", -1},
		"never when it is no shard's Lease and has no holder":                        {"", "", -1},
		"at once when another client removed the label of a returning shard's Lease": {"", "a_", 0},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, leaseOf(of.ring, of.holder), func(s *fakeAPIServer) {
				a := s.startIncarnation("1", false)
				a.wantHeld(of.after == 0, "at once")
				if of.after > 0 {
					sleep(of.after - time.Millisecond)
					a.wantHeld(false, "a little before")
				}
				sleep(max(of.after, 0) + 5*time.Second)
				a.wantHeld(of.after >= 0, "later")
				if of.after < 0 {
					sleep(time.Hour)
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

func TestShardWaitsWhileThePreviousIncarnationRenews(t *testing.T) {
	withFakeAPIServer(t, leaseOf("r", "a_0"), func(s *fakeAPIServer) {
		a := s.startIncarnation("1", false)
		for range 20 {
			sleep(10 * time.Second)
			// The record of client-go's elector has whole seconds, and cannot distinguish this renewal from the last.
			s.updateLease(func(l *coordinationv1.Lease) {
				same := metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Microsecond))
				l.Spec.RenewTime = &same
			})
			a.wantHeld(false, "while the former one renews")
		}
		sleep(leaseDuration + 10*time.Second)
		a.wantHeld(true, "after it stopped renewing")
	})
}

func TestRevokedLeaseIsAcquiredAfterItsRelease(t *testing.T) {
	withFakeAPIServer(t, leaseOf("r", leaseholder.Revoked), func(s *fakeAPIServer) {
		a := s.startIncarnation("1", false)
		sleep(5 * time.Second)
		s.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" })
		sleep(5 * time.Second)
		a.wantHeld(true, "soon")
	})
}

func TestOnlyOneOfTwoIncarnationsWorks(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		first, second := s.startIncarnation("1", false), s.startIncarnation("2", false)
		sleep(time.Hour)
		first.wantHeld(true, "the first")
		second.wantHeld(false, "the second")
		first.stop()
		sleep(5 * time.Second)
		first.wantHeld(false, "the first, stopped")
		second.wantHeld(true, "the second, after that")
	})
}

func TestLostLeaseIsNotAcquiredAgain(t *testing.T) {
	for claim, of := range map[string]struct {
		lose   func(*coordinationv1.Lease)
		says   string
		holder string // at the end
	}{
		"revoked as expired by the sharder":                 {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" }, "did not renew", ""},
		"revoked as expired, and stopped as a stable shard": {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_" }, `taken by "a_"`, "a_"},
		"taken by another incarnation":                      {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" }, "another process runs under the same name", "a_2"},
		"given to another ring":                             {func(l *coordinationv1.Lease) { l.Labels[v1alpha1.LabelRing] = "other" }, `ring "other"`, "a_1"},
		"taken by the sharder":                              {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = leaseholder.Revoked }, "drainTimeoutSeconds", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				a := s.startIncarnation("1", true)
				sleep(time.Minute)
				s.updateLease(of.lose)
				sleep(4 * time.Second)
				a.wantHeld(false, "soon after")
				if err := a.lock.hold.err(); !errors.Is(err, ErrNotHeld) || !strings.Contains(err.Error(), of.says) {
					s.Errorf("error = %v, want it to contain %q", err, of.says)
				}
				lost := s.lease().ResourceVersion
				sleep(time.Hour)
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

func TestDeletedLeaseIsNotRecreated(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		a := s.startIncarnation("1", true)
		sleep(time.Minute)
		if err := s.client.Delete(s.Context(), s.lease()); err != nil {
			t.Fatal(err)
		}
		sleep(4 * time.Second)
		a.wantHeld(false, "soon after")
		sleep(time.Hour)
		if err := s.client.Get(s.Context(), a.lock.key, &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
			s.Errorf("there is one again: %v", err)
		}
	})
}

func TestRecreatedLeaseIsLost(t *testing.T) {
	withFakeAPIServer(t, leaseOf("r", ""), func(s *fakeAPIServer) {
		a := s.startIncarnation("1", true)
		sleep(time.Minute)
		lease := s.lease()
		if err := s.client.Delete(s.Context(), lease); err != nil {
			t.Fatal(err)
		}
		lease.UID, lease.ResourceVersion = "another", ""
		if err := s.client.Create(s.Context(), lease); err != nil {
			t.Fatal(err)
		}
		sleep(4 * time.Second)
		a.wantHeld(false, "soon after, although it says what it has said")
		s.wantHolder("a_1")
	})
}

func TestRemovedLabelIsRestored(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		a := s.startIncarnation("1", true)
		s.updateLease(func(l *coordinationv1.Lease) { l.Labels = nil })
		sleep(5 * time.Second)
		a.wantHeld(true, "after")
		if s.lease().Labels[v1alpha1.LabelRing] != "r" {
			s.Error("it has no label")
		}
	})
}

func TestUnreachableAPIServer(t *testing.T) {
	for claim, of := range map[string]struct {
		away   time.Duration
		held   bool
		holder string // at the end
	}{
		"for less than the Lease duration keeps the hold":             {11 * time.Second, true, "a_1"},
		"for longer ends the hold, and nothing is written after that": {16 * time.Second, false, "a_1"},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				a := s.startIncarnation("1", false)
				sleep(time.Minute)
				until := a.lock.hold.expiry()
				s.unreachable.Store(true)
				sleep(of.away)
				if !of.held {
					sleep(time.Until(until) - time.Nanosecond)
				}
				s.unreachable.Store(false)
				sleep(4 * time.Second)
				a.wantHeld(of.held, "later")
				sleep(time.Hour)
				a.wantHeld(of.held, "in the end")
				s.wantHolder(of.holder)
			})
		})
	}
}

func TestLostResponseIsTolerated(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		s.silent.Store(true)
		a := s.startIncarnation("1", false)
		sleep(5 * time.Second)
		a.wantHeld(false, "before the response")
		s.wantHolder("a_1")
		s.silent.Store(false)
		sleep(5 * time.Second)
		a.wantHeld(true, "soon after")
		sleep(time.Minute)
		s.silent.Store(true)
		sleep(10 * time.Second)
		s.silent.Store(false)
		sleep(time.Minute)
		a.wantHeld(true, "after other ones")
	})
}

func TestShardDoesNotWaitForAnEndlessLease(t *testing.T) {
	lease := leaseOf("r", "a_0")
	*lease.Spec.LeaseDurationSeconds = math.MaxInt32
	withFakeAPIServer(t, lease, func(s *fakeAPIServer) {
		a := s.startIncarnation("1", false)
		sleep(leaseDuration + 5*time.Second)
		a.wantHeld(true, "after the duration of the ring")
	})
}

func TestHoldEndsExactlyAtItsExpiry(t *testing.T) {
	withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
		a := s.startIncarnation("1", false)
		sleep(time.Minute)
		s.unreachable.Store(true)
		ctx, cancel := a.lock.hold.context(s.Context())
		defer cancel()
		sleep(time.Until(a.lock.hold.expiry()) - time.Nanosecond)
		if ctx.Err() != nil {
			s.Error("the context has ended before")
		}
		a.wantHeld(true, "until the end")
		sleep(time.Nanosecond)
		a.wantHeld(false, "at the end")
		if !errors.Is(context.Cause(ctx), ErrNotHeld) {
			s.Errorf("the context's cause is %v", context.Cause(ctx))
		}
	})
}
