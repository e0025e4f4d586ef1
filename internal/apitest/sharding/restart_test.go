package sharding_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestShardReplacesAKilledShardOfItsName(t *testing.T) {
	t.Parallel()
	r := newRing(t, 4)
	r.createDeployments(5, "a")
	former := r.join("a")
	r.record.awaitWrites(former.identity, 0)
	former.signal(syscall.SIGKILL)
	former.awaitEnd()
	killed, renewed := r.record.now(), r.lease("a").Spec.RenewTime
	next := r.join("a")
	if waited := r.lease("a").Spec.AcquireTime.Sub(renewed.Time); waited < 4*time.Second {
		t.Errorf("acquired the Lease %s after the last renewal of the previous process", waited)
	}
	r.record.awaitWrites(next.identity, killed)
	for _, d := range r.deployments() {
		if d.Labels[v1alpha1.LabelShard(r.name)] != "a" {
			t.Errorf("%s has labels %v", d.Name, d.Labels)
		}
	}
	if first := r.record.writesOf(next.identity, 0)[0]; len(r.record.writesOf(former.identity, first.at)) > 0 {
		t.Errorf("previous process wrote after %v: %v", first, r.record.writesOf(former.identity, first.at))
	}
}

func TestStoppedShardReleasesItsLease(t *testing.T) {
	for claim, of := range map[string]struct {
		arguments []string
		holder    string
	}{
		"releases its objects":                               {nil, ""},
		"keeps its objects for the next process of its name": {[]string{"--stable"}, "a_"},
		"finishes its reconciles and releases its objects":   {[]string{"--takes=200ms"}, ""},
		"finishes its reconciles and keeps its objects":      {[]string{"--takes=200ms", "--stable"}, "a_"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, 60)
			r.createDeployments(5, "a")
			former := r.join("a", of.arguments...)
			r.record.awaitWrites(former.identity, 0)
			former.signal(syscall.SIGTERM)
			if code := former.awaitEnd(); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			if holder := r.holder("a"); holder != of.holder {
				t.Errorf("the Lease is held by %q, want %q", holder, of.holder)
			}
			stopped := r.record.now()
			next := r.join("a", of.arguments...) // long before the Lease of the former one would have expired
			r.record.awaitWrites(next.identity, stopped)
			former.wantNoMoreWrites(stopped)
		})
	}
}

func TestSecondProcessOfANameWaits(t *testing.T) {
	t.Parallel()
	r := newRing(t, 4)
	r.createDeployments(3, "a")
	first := r.join("a")
	second := r.start("a")
	testplane.Eventually(t, func() string {
		if !strings.Contains(second.output(), "Waiting until the Lease") {
			return "the log does not say that it waits"
		}
		return ""
	})
	r.record.awaitWrites(first.identity, r.record.now())
	if holder := r.holder("a"); holder != first.identity {
		t.Errorf("the Lease is held by %q, the first is %q", holder, first.identity)
	}
	first.signal(syscall.SIGKILL)
	first.awaitEnd()
	second.awaitLease(first.identity)
	r.record.awaitWrites(second.identity, 0)
	if begun := r.record.writesOf(second.identity, 0)[0]; len(r.record.writesOf(first.identity, begun.at)) > 0 {
		t.Errorf("both processes wrote: %v", r.record.writesOf("", 0))
	}
}

func TestShardEndsWhenItLosesItsLease(t *testing.T) {
	for claim, of := range map[string]struct {
		lose   func(*ring)
		says   string
		holder string // at the end
	}{
		"when it was deleted": {func(r *ring) {
			if err := r.Delete(r.Context(), r.lease("a")); err != nil {
				r.Fatal(err)
			}
		}, "its Lease was deleted", ""},
		"when it was revoked as expired":       {func(r *ring) { r.setHolder("a", "") }, "because the shard did not renew it", ""},
		"when it was taken":                    {func(r *ring) { r.setHolder("a", "a_another") }, `taken by "a_another"`, "a_another"},
		"when it was revoked, and releases it": {func(r *ring) { r.setHolder("a", "breakwater-sharder") }, "removed from its ring", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, 10)
			r.createDeployments(3, "a")
			p := r.join("a")
			r.record.awaitWrites(p.identity, 0)
			of.lose(r)
			if code := p.awaitEnd(); code != 1 {
				t.Errorf("it ended with %d", code)
			}
			ended := r.record.now()
			p.wantOutput(of.says)
			p.wantOutput(fmt.Sprintf("shard a of ring %s", r.name))
			if holder := r.holder("a"); holder != of.holder {
				t.Errorf("the Lease is held by %q, want %q", holder, of.holder)
			}
			if of.holder == "" {
				next := r.join("a")
				r.record.awaitWrites(next.identity, 0)
			}
			p.wantNoMoreWrites(ended)
		})
	}
}

// This test does not run in parallel, so it runs before the parallel tests.
func TestShardSurvivesAnAPIServerOutage(t *testing.T) {
	r := newRing(t, 30)
	r.createDeployments(3, "a")
	p := r.join("a")
	r.record.awaitWrites(p.identity, 0)
	testplane.RestartAPIServer(t)
	r.record.awaitWrites(p.identity, r.record.now())
	renewed := r.lease("a").Spec.RenewTime
	testplane.Eventually(t, func() string {
		if lease := r.lease("a"); lease.Spec.RenewTime.Equal(renewed) {
			return "the Lease is no longer renewed"
		}
		return ""
	})
	if holder := r.holder("a"); holder != p.identity {
		t.Errorf("the Lease is held by %q, want %q", holder, p.identity)
	}
}
