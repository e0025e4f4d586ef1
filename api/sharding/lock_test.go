package sharding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const lasts = 15 * time.Second

// stage is an apiserver that has one Lease, and time that passes when nobody has anything to do.
type stage struct {
	*testing.T
	client client.Client
	// away makes the apiserver answer nothing but errors.
	away bool
	// writes counts those of shards.
	writes int
}

// onStage runs a test. The Lease, if there is one, is that of shard a.
func onStage(t *testing.T, lease *coordinationv1.Lease, play func(*stage)) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := coordinationv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		building := fake.NewClientBuilder().WithScheme(scheme)
		if lease != nil {
			building = building.WithObjects(lease)
		}
		s := &stage{T: t, client: building.Build()}
		play(s)
	})
}

func leaseOf(ring, holder string) *coordinationv1.Lease {
	seconds, now := int32(lasts/time.Second), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shards", Name: "a"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if ring != "" {
		lease.Labels = map[string]string{v1alpha1.LabelRing: ring}
	}
	return lease
}

func (s *stage) lease() *coordinationv1.Lease {
	s.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "shards", Name: "a"}, lease); err != nil {
		s.Fatal(err)
	}
	return lease
}

func (s *stage) change(change func(*coordinationv1.Lease)) {
	s.Helper()
	lease := s.lease()
	change(lease)
	if err := s.client.Update(s.Context(), lease); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) wantHolder(want string) {
	s.Helper()
	synctest.Wait()
	if have := holderOf(s.lease()); have != want {
		s.Errorf("the Lease is held by %q, want %q", have, want)
	}
}

// actor is an incarnation of shard a, with an elector of client-go's as a manager has it.
type actor struct {
	*stage
	lock *lock
	stop context.CancelFunc
	// ended is closed when the elector has given up.
	ended chan struct{}
}

func (s *stage) enter(incarnated string, stable bool) *actor {
	failing := func() error {
		if s.away {
			return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
		}
		return nil
	}
	mediated := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return errors.Join(failing(), c.Get(ctx, key, o, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := failing(); err != nil {
				return err
			}
			s.writes++
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := failing(); err != nil {
				return err
			}
			s.writes++
			return c.Update(ctx, o, options...)
		},
	})
	a := &actor{stage: s, ended: make(chan struct{}), lock: &lock{
		incarnation: incarnation{ring: "r", name: "a", identity: "a_" + incarnated, duration: lasts},
		client:      mediated, key: client.ObjectKey{Namespace: "shards", Name: "a"}, stable: stable,
		hold: newHold(lasts), work: newWork(),
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: a.lock, LeaseDuration: lasts, RenewDeadline: lasts * 9 / 10, RetryPeriod: lasts * 2 / 15, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.Context())
	a.stop = stop
	go func() {
		elector.Run(ctx)
		close(a.ended)
	}()
	s.Cleanup(func() {
		stop()
		<-a.ended
	})
	synctest.Wait()
	return a
}

func (a *actor) wantHeld(want bool, when string) {
	a.Helper()
	synctest.Wait()
	if err := a.lock.hold.err(); (err == nil) != want {
		a.Errorf("%s: held: %t (%v), want %t", when, err == nil, err, want)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAShardMakesItsLease(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.enter("1", false).wantHeld(true, "at once")
		lease := s.lease()
		if lease.Labels[v1alpha1.LabelRing] != "r" || holderOf(lease) != "a_1" || *lease.Spec.LeaseDurationSeconds != 15 || lease.Spec.RenewTime == nil {
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
		after        time.Duration // 0 is at once, negative never
	}{
		"at once when it was given up or buried":                              {"r", "", 0},
		"at once when the shard was stopped and is to come back":              {"r", "a_", 0},
		"after its duration when the former incarnation may still work":       {"r", "a_0", lasts},
		"after its duration when somebody unknown has it":                     {"r", "somebody", lasts},
		"after twice its duration when the sharder has taken it":              {"r", revoked, 2 * lasts},
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
					if s.wantHolder(of.holder); s.writes > 0 {
						s.Errorf("it was written %d times", s.writes)
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
			// The record of client-go's elector has whole seconds, and does not tell this one from the last.
			s.change(func(l *coordinationv1.Lease) {
				same := metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Microsecond))
				l.Spec.RenewTime = &same
			})
			a.wantHeld(false, "while the former one renews")
		}
		pass(lasts + 5*time.Second)
		a.wantHeld(true, "when it does not any more")
	})
}

func TestARevokedLeaseIsTakenWhenItWasEmptied(t *testing.T) {
	onStage(t, leaseOf("r", revoked), func(s *stage) {
		a := s.enter("1", false)
		pass(5 * time.Second)
		s.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" })
		pass(3 * time.Second)
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
		pass(3 * time.Second)
		first.wantHeld(false, "the first, stopped")
		second.wantHeld(true, "the second, after that")
	})
}

func TestALeaseThatWasLostIsLostForEver(t *testing.T) {
	for claim, of := range map[string]struct {
		lose   func(*coordinationv1.Lease)
		says   string
		holder string // in the end
	}{
		"buried by the sharder":                           {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" }, "fallen silent", ""},
		"buried, and stopped with a name to come back to": {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_" }, `taken by "a_"`, "a_"},
		"taken by another incarnation":                    {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" }, "another process runs under the same name", "a_2"},
		"given to another ring":                           {func(l *coordinationv1.Lease) { l.Labels[v1alpha1.LabelRing] = "other" }, `ring "other"`, "a_1"},
		"taken by the sharder":                            {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = revoked }, "drainTimeoutSeconds", ""},
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
				<-a.ended // the elector has given up by then
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
		holder string // in the end
	}{
		"for less than the Lease lasts is survived":                   {11 * time.Second, true, "a_1"},
		"for longer ends the hold, and nothing is written after that": {16 * time.Second, false, "a_1"},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				a := s.enter("1", false)
				pass(time.Minute)
				until := a.lock.hold.until()
				s.away = true
				pass(of.away)
				if !of.held {
					pass(time.Until(until) - time.Nanosecond)
				}
				s.away = false
				pass(4 * time.Second)
				a.wantHeld(of.held, "later")
				pass(time.Hour)
				a.wantHeld(of.held, "in the end")
				s.wantHolder(of.holder)
			})
		})
	}
}

func TestAHoldEndsToTheMoment(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		a := s.enter("1", false)
		pass(time.Minute)
		s.away = true
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
