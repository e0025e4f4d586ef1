package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// long is a lease duration that no test waits for: tests advance the clock.
const long = 1000 * time.Second

// fixture is a ring whose shards the test simulates, and a running roll.
type fixture struct {
	*testing.T
	client.Client
	*ShardTracker
	of *v1alpha1.ClusterRing
	// processed is the time by which the roll's clock is advanced.
	processed atomic.Int64
	leading   atomic.Bool

	mu       sync.Mutex
	notified map[string]int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	l := &fixture{T: t, Client: testplane.Client(t), notified: map[string]int{}}
	namespace := testplane.Namespace(t)
	l.of = &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	l.of.Spec = v1alpha1.ClusterRingSpec{ShardNamespace: namespace, TokensPerShard: 10, LeaseDurationSeconds: int32(long / time.Second)}
	l.leading.Store(true)
	account := testplane.User(t, "roll-of-"+namespace, roles.Rules(t, "sharder.shards"))
	testplane.StartManager(t, account, func(ctx context.Context, mgr manager.Manager) error {
		roll, err := NewShardTracker(ctx, mgr, l.leading.Load)
		if err != nil {
			return err
		}
		l.ShardTracker, roll.now = roll, func() time.Time { return time.Now().Add(time.Duration(l.processed.Load())) }
		roll.OnChange(func(ring string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.notified[ring]++
		})
		return nil
	}, func(o *manager.Options) { Select(&o.Cache) })
	l.eventually(func() string {
		if !l.HasSynced() {
			return "the tracker has not read all Leases"
		}
		return ""
	})
	return l
}

func (l *fixture) eventually(check func() string) { l.Helper(); testplane.Eventually(l, check) }

func (l *fixture) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) key(shard string) types.NamespacedName {
	return types.NamespacedName{Namespace: l.of.Spec.ShardNamespace, Name: shard}
}

// lease creates the Lease of a shard.
func (l *fixture) lease(shard string, change ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	l.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.of.Spec.ShardNamespace, Name: shard, Labels: map[string]string{v1alpha1.LabelRing: l.of.Name}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(shard + "_a"), LeaseDurationSeconds: ptr.To(int32(long / time.Second)), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	for _, c := range change {
		c(lease)
	}
	l.must(l.Create(l.Context(), lease))
	return lease
}

// edit changes a Lease as its shard or a user does.
func (l *fixture) edit(shard string, change func(*coordinationv1.Lease)) {
	l.Helper()
	for {
		lease := l.read(shard)
		change(lease)
		err := l.Update(l.Context(), lease)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			l.Fatal(err)
		}
	}
}

func renew(lease *coordinationv1.Lease) { lease.Spec.RenewTime = ptr.To(metav1.NowMicro()) }

func (l *fixture) read(shard string) *coordinationv1.Lease {
	l.Helper()
	lease := &coordinationv1.Lease{}
	l.must(l.Get(l.Context(), l.key(shard), lease))
	return lease
}

// processAll advances the clock of the roll, which then checks a shard.
func (l *fixture) processAll(by time.Duration, shard string) {
	l.processed.Add(int64(by))
	l.queue.Add(l.key(shard))
}

// known returns the roll's record of a Lease.
func (l *fixture) known(shard string) *observedLease {
	l.ShardTracker.mu.Lock()
	defer l.ShardTracker.mu.Unlock()
	return l.leases[l.key(shard)]
}

// states waits until the ring has these shards.
func (l *fixture) states(want map[string]v1alpha1.ShardState) {
	l.Helper()
	l.eventually(func() string {
		have := map[string]v1alpha1.ShardState{}
		for _, member := range l.Of(l.of) {
			have[member.Name] = member.State
		}
		if !maps.Equal(have, want) {
			return fmt.Sprintf("shards %v, want %v", have, want)
		}
		return ""
	})
}

func (l *fixture) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notified[l.of.Name]
}

func one(state v1alpha1.ShardState) map[string]v1alpha1.ShardState {
	return map[string]v1alpha1.ShardState{"a": state}
}

func TestShardsOfRingFollowLeases(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.lease("stopped", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("stopped_") })
	l.lease("gone", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") })
	l.lease("of-another-ring", func(lease *coordinationv1.Lease) { lease.Labels[v1alpha1.LabelRing] = "another" })
	l.lease("of-none", func(lease *coordinationv1.Lease) { lease.Labels = nil })
	l.lease("endless", func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](3601) })
	elsewhere := l.of.DeepCopy()
	elsewhere.Spec.ShardNamespace = "default"
	l.states(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "stopped": v1alpha1.ShardReady, "gone": v1alpha1.ShardDead})
	if shards := l.Shards(l.of).Shards(); !slices.Equal(shards, []string{"a", "stopped"}) {
		t.Errorf("available shards %v", shards)
	}
	if all := l.Of(elsewhere); len(all) != 0 {
		t.Errorf("in another namespace there are %v", all)
	}
}

func TestShardsAreCachedUntilMembershipChanges(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	l.eventually(func() string {
		if l.calls() == 0 {
			return "no notification of the new shard"
		}
		return ""
	})
	shards, calls := l.Shards(l.of), l.calls()
	for range 3 {
		before := l.known("a")
		l.edit("a", renew)
		l.eventually(func() string {
			if l.known("a") == before {
				return "the tracker has not seen the Lease renewed"
			}
			return ""
		})
	}
	if l.Shards(l.of) != shards || l.calls() != calls {
		t.Errorf("a renewal changed the shards, or caused %d calls", l.calls()-calls)
	}
	l.processAll(long+time.Second, "a")
	l.states(one(v1alpha1.ShardExpired))
	l.eventually(func() string {
		if l.calls() == calls {
			return "no notification of a late shard"
		}
		return ""
	})
	if l.Shards(l.of) != shards {
		t.Error("a late shard changed the shards")
	}
	calls = l.calls()
	l.edit("a", renew)
	l.states(one(v1alpha1.ShardReady))
	l.eventually(func() string {
		if l.calls() == calls {
			return "no notification that the shard is back"
		}
		return ""
	})
	l.lease("b", func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.now())) })
	l.states(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady})
	if l.Shards(l.of) == shards {
		t.Error("one more shard did not change the shards")
	}
	finer := l.of.DeepCopy()
	finer.Spec.TokensPerShard++
	if shards = l.Shards(l.of); l.Shards(finer) == shards {
		t.Error("more tokens did not change the shards")
	}
}

func TestSilentShardIsTombstonedThenDeleted(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	l.processAll(2*long-10*time.Second, "a")
	l.states(one(v1alpha1.ShardExpired))
	if holder := l.Holder(l.of, "a"); holder != "a_a" {
		t.Errorf("holder %q", holder)
	}
	l.processAll(11*time.Second, "a")
	l.states(one(v1alpha1.ShardDead))
	if lease := l.read("a"); *lease.Spec.HolderIdentity != "" || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("tombstoned as %+v", lease.Spec)
	}
	l.processAll(61*time.Second, "a")
	l.eventually(func() string {
		if err := l.Get(t.Context(), l.key("a"), &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its Lease is still there: %v", err)
		}
		return ""
	})
	l.states(map[string]v1alpha1.ShardState{})
}

func TestOnlyLeaderTombstones(t *testing.T) {
	l := newFixture(t)
	l.leading.Store(false)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	l.processAll(3*long, "a")
	l.states(one(v1alpha1.ShardUncertain))
	l.must(l.processLease(t.Context(), l.key("a")))
	if holder := *l.read("a").Spec.HolderIdentity; holder != "a_a" {
		t.Fatalf("a process that does not lead set the holder %q", holder)
	}
	l.leading.Store(true)
	l.states(one(v1alpha1.ShardDead))
}

// A renewal that the roll has not seen yet keeps the shard alive, even if the roll's clock says otherwise.
func TestShardThatRenewsInTimeIsNotTombstoned(t *testing.T) {
	l := newFixture(t)
	l.leading.Store(false)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	stale := l.known("a")
	l.edit("a", renew)
	if err := l.setHolder(t.Context(), stale.lease, ""); !apierrors.IsConflict(err) {
		t.Errorf("tombstone of an outdated Lease: %v, want a conflict", err)
	}
}

func TestRevokedShardIsDeadAfterTwiceItsLease(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	shards := l.Shards(l.of)
	l.must(l.Revoke(t.Context(), l.of, "a"))
	l.states(one(v1alpha1.ShardUncertain))
	if holder := l.Holder(l.of, "a"); holder != leaseholder.Revoked || l.Shards(l.of) != shards {
		t.Errorf("holder %q, the same shards: %t", holder, l.Shards(l.of) == shards)
	}
	l.must(l.Revoke(t.Context(), l.of, "a"))
	if n := *l.read("a").Spec.LeaseTransitions; n != 1 {
		t.Errorf("revoked %d times", n)
	}
	l.must(l.Revoke(t.Context(), l.of, "unknown"))
	l.processAll(2*long-time.Second, "a")
	l.must(l.processLease(t.Context(), l.key("a")))
	l.states(one(v1alpha1.ShardUncertain))
	l.processAll(2*time.Second, "a")
	l.states(one(v1alpha1.ShardDead))
}

// A shard whose Lease is taken away works until it notices: no other shard may have its objects before.
func TestShardWithoutLeaseKeepsObjectsUntilItMustHaveStopped(t *testing.T) {
	for claim, lose := range map[string]func(*fixture){
		"the Lease is deleted": func(l *fixture) { l.must(l.Delete(l.Context(), l.read("a"))) },
		"its label is removed": func(l *fixture) {
			l.edit("a", func(lease *coordinationv1.Lease) { lease.Labels = nil })
		},
		"it becomes invalid": func(l *fixture) {
			l.edit("a", func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](86400) })
		},
		"its label names another ring": func(l *fixture) {
			l.edit("a", func(lease *coordinationv1.Lease) { lease.Labels[v1alpha1.LabelRing] = "another" })
		},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.lease("a")
			l.states(one(v1alpha1.ShardReady))
			shards := l.Shards(l.of)
			lose(l)
			l.states(one(v1alpha1.ShardUncertain))
			if holder := l.Holder(l.of, "a"); l.Shards(l.of) != shards || holder != "" {
				t.Errorf("the same shards: %t, holder %q", l.Shards(l.of) == shards, holder)
			}
			l.must(l.Revoke(t.Context(), l.of, "a"))
			l.processAll(2*long-time.Second, "a")
			l.must(l.processLease(t.Context(), l.key("a")))
			l.states(one(v1alpha1.ShardUncertain))
			calls := l.calls()
			l.processAll(2*time.Second, "a")
			l.states(map[string]v1alpha1.ShardState{})
			l.eventually(func() string {
				if l.calls() == calls {
					return "no notification"
				}
				return ""
			})
		})
	}
}

func TestShardReturnsWithNewLease(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.states(one(v1alpha1.ShardReady))
	l.must(l.Delete(t.Context(), l.read("a")))
	l.states(one(v1alpha1.ShardUncertain))
	l.lease("a", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("a_b") })
	l.states(one(v1alpha1.ShardReady))
	l.must(l.Delete(t.Context(), l.read("a")))
	l.states(one(v1alpha1.ShardUncertain))
	// A Lease without a holder is that of a dead shard, and leaves nothing.
	l.lease("a", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") })
	l.states(one(v1alpha1.ShardDead))
	l.must(l.Delete(t.Context(), l.read("a")))
	l.states(map[string]v1alpha1.ShardState{})
}

// A Lease that existed before the roll is as old as its renewTime says, but a wrong clock cannot make a shard appear dead.
func TestInitialLeaseAgeIsLimitedToDuration(t *testing.T) {
	l := newFixture(t)
	at := func(by time.Duration) func(*coordinationv1.Lease) {
		return func(lease *coordinationv1.Lease) {
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(by)))
		}
	}
	l.lease("a", at(-time.Hour*24*365))
	l.lease("half", at(-long/2))
	l.lease("future", at(time.Hour*24*365))
	l.states(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardExpired, "half": v1alpha1.ShardReady, "future": v1alpha1.ShardReady})
	l.processAll(long-10*time.Second, "a")
	l.must(l.processLease(t.Context(), l.key("a")))
	l.states(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardExpired, "half": v1alpha1.ShardExpired, "future": v1alpha1.ShardReady})
	l.processAll(11*time.Second, "a")
	l.states(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardDead, "half": v1alpha1.ShardExpired, "future": v1alpha1.ShardExpired})
}

func TestIsGoneReadsAPIServer(t *testing.T) {
	l := newFixture(t)
	l.lease("a")
	l.lease("stopped", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("stopped_") })
	l.lease("revoked", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To(leaseholder.Revoked) })
	l.lease("dead", func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") })
	l.lease("of-another-ring", func(lease *coordinationv1.Lease) { lease.Labels[v1alpha1.LabelRing] = "another" })
	l.lease("endless", func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](3601) })
	check := func(want map[string]bool) {
		t.Helper()
		for shard, isGone := range want {
			got, err := l.IsGone(t.Context(), l.of, shard)
			if err != nil || got != isGone {
				t.Errorf("%s is gone: %t (%v), want %t", shard, got, err, isGone)
			}
		}
	}
	l.lease("unlabeled", func(lease *coordinationv1.Lease) { delete(lease.Labels, v1alpha1.LabelRing) })
	l.lease("slow", func(lease *coordinationv1.Lease) {
		delete(lease.Labels, v1alpha1.LabelRing)
		lease.Spec.LeaseDurationSeconds = ptr.To(3 * int32(long/time.Second))
	})
	l.lease("unheld", func(lease *coordinationv1.Lease) { lease.Labels, lease.Spec.HolderIdentity = nil, ptr.To("") })
	// A shard whose Lease has lost its label restores it when it renews the Lease, and works until then.
	check(map[string]bool{"a": false, "stopped": false, "revoked": false, "dead": true, "of-another-ring": false, "unlabeled": false, "unheld": true, "endless": false,
		"slow": false, "unknown": false, "No.Shard_is-called-So": false})
	l.leading.Store(false)                      // by the advanced clock it would take the Lease of a shard that it has not checked yet
	l.processAll(2*long+time.Second, "unknown") // a Lease that was deleted before this process began is old enough now
	check(map[string]bool{"a": false, "of-another-ring": true, "unlabeled": true, "slow": false, "unknown": true, "No.Shard_is-called-So": true})
	l.processAll(4*long, "unknown")
	check(map[string]bool{"slow": true})
}
