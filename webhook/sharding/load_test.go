package sharding_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

// bounded returns a fixture for a ring of three shards, each of which may have at most 110 % of the mean.
func bounded(t *testing.T) (*handlerFixture, *v1alpha1.ClusterRing) {
	t.Helper()
	// With so few tokens the shares are far from even.
	return boundedBy(t, func() *ring.Shards {
		return ring.NewShards(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady, "c": v1alpha1.ShardReady, "gone": v1alpha1.ShardDead}, 1)
	})
}

func boundedBy(t *testing.T, shards func() *ring.Shards) (*handlerFixture, *v1alpha1.ClusterRing) {
	t.Helper()
	of := shops(v1alpha1.KeyPolicyObject)
	of.Spec.MaxLoadPercent = ptr.To[int32](110)
	return newHandlerFixture(t, func(p *sharding.HandlerParts) {
		p.RingOf = func(context.Context, string) (*v1alpha1.ClusterRing, error) { return of, nil }
		p.ShardsOf = func(*v1alpha1.ClusterRing) *ring.Shards { return shards() }
	}), of
}

// create creates objects, and returns how many each shard got.
func (d *handlerFixture) create(from, to int) map[string]int64 {
	d.Helper()
	got := map[string]int64{}
	for i := from; i < to; i++ {
		got[d.review("shops", reviewCase{object: fmt.Sprintf(`"namespace":"shop","name":"web-%d"`, i)}.request()).AuditAnnotations["shard"]]++
	}
	return got
}

func wantWithin(t *testing.T, has map[string]int64) {
	t.Helper()
	objects, most := int64(0), int64(0)
	for _, n := range has {
		objects, most = objects+n, max(most, n)
	}
	if limit := ring.Limit(objects, 3, ptr.To[int32](110)); most > limit {
		t.Errorf("load %v, want at most %d for each shard", has, limit)
	}
}

func TestLoadStaysWithinBound(t *testing.T) {
	d, of := bounded(t)
	has := d.create(0, 900)
	wantWithin(t, has)

	// The sharder counts the objects, and one shard has many more than this handler assigned to it.
	has["a"] += 200
	of.Status.LastCounted = &metav1.Time{Time: time.Unix(1, 0)}
	for name, n := range has {
		of.Status.Members = append(of.Status.Members, v1alpha1.RingMember{Name: name, Assigned: n})
	}
	of.Status.Members = append(of.Status.Members, v1alpha1.RingMember{Name: "gone", Assigned: 1000})
	for name, n := range d.create(900, 1800) {
		has[name] += n
	}
	wantWithin(t, has)
}

// A new count replaces the earlier assignments: those objects are included in it, or were deleted.
func TestNewCountReplacesEarlierAssignments(t *testing.T) {
	alive := map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady}
	d, of := boundedBy(t, func() *ring.Shards { return ring.NewShards(alive, 100) })
	if got := d.create(0, 300); got["a"] != 300 {
		t.Fatalf("load %v", got)
	}
	alive["b"], alive["c"] = v1alpha1.ShardReady, v1alpha1.ShardReady
	of.Status.LastCounted = &metav1.Time{Time: time.Unix(1, 0)}
	for name := range alive {
		of.Status.Members = append(of.Status.Members, v1alpha1.RingMember{Name: name})
	}
	has := d.create(300, 390) // the others were deleted
	if wantWithin(t, has); has["a"] < 20 {
		t.Errorf("load %v", has)
	}
}

func TestUnboundedLoadFollowsTheRing(t *testing.T) {
	d, of := bounded(t)
	of.Spec.MaxLoadPercent = nil
	shards := ring.NewShards(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady, "c": v1alpha1.ShardReady}, 1)
	want := map[string]int64{}
	for i := range 300 {
		owner, _ := shards.Owner(fmt.Sprintf("object/apps/deployments/shop/web-%d", i))
		want[owner]++
	}
	if got := d.create(0, 300); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("load %v, want %v", got, want)
	}
	if rings, _ := d.handler.RecordedAssignments(); rings != 0 {
		t.Errorf("%d rings recorded", rings)
	}
}

// Users may write any name into the label of an object.
func TestUnknownShardNamesAreNotRecorded(t *testing.T) {
	d, _ := bounded(t)
	for i := range 100 {
		d.review("shops", reviewCase{object: `"namespace":"shop","name":"web"`, old: `"namespace":"shop","name":"web",` + placementLabels(fmt.Sprint("x", i), true)}.request())
	}
	d.create(0, 100)
	if rings, shards := d.handler.RecordedAssignments(); rings != 1 || shards > 3 {
		t.Errorf("%d rings and %d shards recorded", rings, shards)
	}
	d.handler.DropRing("shops")
	if rings, _ := d.handler.RecordedAssignments(); rings != 0 {
		t.Errorf("%d rings recorded", rings)
	}
}
