package aggregator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
)

func (l *fixture) lease(name string) *coordinationv1.Lease {
	l.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	if err := l.client.Get(l.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		l.Fatal(err)
	}
	return lease
}

func (l *fixture) join(shard *ownership.RingShard) *ownership.Incarnation {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	incarnation, err := shard.Join(ctx)
	if err != nil {
		l.Fatalf("Join() failed: %v", err)
	}
	return incarnation
}

func TestIncarnationEndsBeforeNextBeginsOrLeaseIsReleased(t *testing.T) {
	l := newFixture(t)
	l.createRing()
	var shard *ownership.RingShard
	stop := testplane.StartManager(l, l.shardUser(), func(ctx context.Context, mgr manager.Manager) (err error) {
		shard, err = ownership.NewRingShard(ctx, mgr, ownership.RingShardOptions{Ring: l.namespace, Name: "a", Returns: true})
		return err
	}, func(o *manager.Options) { members.Select(&o.Cache) })

	first := l.join(shard)
	if !first.IsHeld() {
		t.Error("Join() returned an incarnation without its Lease")
	}
	revoke := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"`+leaseholder.Revoked+`"}}`))
	if err := l.client.Patch(t.Context(), l.lease("a"), revoke); err != nil {
		t.Fatal(err)
	}
	<-first.Context.Done()
	if cause := context.Cause(first.Context); !errors.Is(cause, sharding.ErrNotHeld) || first.IsHeld() {
		t.Errorf("ended with %v, Held() = %t", cause, first.IsHeld())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // after which the next one would have begun
	defer cancel()
	if next, err := shard.Join(ctx); err == nil {
		t.Errorf("%s began before %s was done", next.Holder, first.Holder)
		next.Done()
	}
	first.Done()

	second := l.join(shard)
	if second.Holder == first.Holder || !second.IsHeld() {
		t.Errorf("after %s: holder %s, Held() = %t", first.Holder, second.Holder, second.IsHeld())
	}
	go stop()
	<-second.Context.Done()
	for end := time.Now().Add(time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if holder := leaseholder.Of(l.lease("a")); holder != second.Holder {
			t.Fatalf("the Lease was released, to %q, before %s was done", holder, second.Holder)
		}
	}
	second.Done()
	l.eventually(func() string {
		if holder := leaseholder.Of(l.lease("a")); holder != "a_" {
			return "the Lease is held by " + holder
		}
		return ""
	})
}
