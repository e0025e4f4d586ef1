package ring_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](10), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
}

func TestStateOfLease(t *testing.T) {
	for claim, test := range map[string]struct {
		holder    string
		unchanged time.Duration
		state     v1alpha1.ShardState
		step      ring.Step
		// then is the time at which the state changes if the Lease does not; 0 means never.
		then time.Duration
	}{
		"one that renews is ready":                         {"web-0_a", 0, v1alpha1.ShardReady, ring.Wait, 10 * time.Second},
		"one that renews late is ready":                    {"web-0_a", 10 * time.Second, v1alpha1.ShardReady, ring.Wait, 10 * time.Second},
		"one that does not is expired":                     {"web-0_a", 11 * time.Second, v1alpha1.ShardExpired, ring.Wait, 20 * time.Second},
		"one that did not for twice as long is uncertain":  {"web-0_a", 21 * time.Second, v1alpha1.ShardUncertain, ring.Tombstone, 0},
		"one that is to come back is ready":                {"web-0_", time.Second, v1alpha1.ShardReady, ring.Wait, 10 * time.Second},
		"one that has not come back is uncertain":          {"web-0_", 21 * time.Second, v1alpha1.ShardUncertain, ring.Tombstone, 0},
		"one that released its Lease is dead":              {"", 0, v1alpha1.ShardDead, ring.Wait, time.Minute},
		"one whose Lease another has is dead":              {"web-1_a", 0, v1alpha1.ShardDead, ring.Wait, time.Minute},
		"one of a longer name is another":                  {"web-01_a", 0, v1alpha1.ShardDead, ring.Wait, time.Minute},
		"one that says nothing of its incarnation is dead": {"web-0", 0, v1alpha1.ShardDead, ring.Wait, time.Minute},
		"a revoked one may still work":                     {leaseholder.Revoked, 11 * time.Second, v1alpha1.ShardUncertain, ring.Wait, 20 * time.Second},
		"one that was revoked long ago does not":           {leaseholder.Revoked, 21 * time.Second, v1alpha1.ShardUncertain, ring.Tombstone, 0},
		"one that is dead for a minute is deleted":         {"", 61 * time.Second, v1alpha1.ShardOrphaned, ring.Delete, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			lease := leaseOf(test.holder)
			if state := ring.StateOf(lease, test.unchanged); state != test.state {
				t.Errorf("state %s, want %s", state, test.state)
			}
			step, after := ring.NextStep(lease, test.unchanged)
			if step != test.step {
				t.Errorf("step %d, want %d", step, test.step)
			}
			if test.then == 0 {
				if after != 0 {
					t.Errorf("again after %s, want never", after)
				}
				return
			}
			if due := test.unchanged + after; due <= test.then || due > test.then+time.Second {
				t.Errorf("again at %s, want just after %s", due, test.then)
			}
		})
	}
}

func TestLeaseWithoutHolderIsOfDeadShard(t *testing.T) {
	lease := leaseOf("")
	lease.Spec.HolderIdentity = nil
	if state := ring.StateOf(lease, 0); state != v1alpha1.ShardDead {
		t.Errorf("state %s", state)
	}
}

func TestInvalidLeases(t *testing.T) {
	for claim, test := range map[string]struct {
		change  func(*coordinationv1.Lease)
		problem string
	}{
		"a shard's":             {func(*coordinationv1.Lease) {}, ""},
		"a long name":           {func(l *coordinationv1.Lease) { l.Name = strings.Repeat("a", 64) }, "no more than 63"},
		"a name with a dot":     {func(l *coordinationv1.Lease) { l.Name = "web.0" }, "must not contain dots"},
		"no duration":           {func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }, "from 1 to 3600"},
		"a duration of a year":  {func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To[int32](31_536_000) }, "from 1 to 3600"},
		"a duration of nothing": {func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To[int32](0) }, "from 1 to 3600"},
		"no time":               {func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, "renewTime is not set"},
	} {
		t.Run(claim, func(t *testing.T) {
			lease := leaseOf("web-0_a")
			test.change(lease)
			err := ring.CheckLease(lease)
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, want %q", err, test.problem)
			}
		})
	}
}
