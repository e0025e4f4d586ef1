package shares

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// unserved is a cluster that does not serve PodProtectors any more: its CRD was deleted, or erased from etcd. An API server answers 404 then.
type unserved struct{ client.Client }

var errUnserved = apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{Group: "breakwater.dev", Resource: "podprotectors"}, "", "", 0, true)

func (c unserved) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.PodProtectorList); ok {
		return errUnserved
	}
	return c.Client.List(ctx, list, o...)
}

func (unserved) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errUnserved
}

// The CRD is deleted in a worker, and with it the shares. The pods of the cell die. The core must hear of that (rule S4).
func TestPodsThatDieAreCountedWhereTheCRDIsGone(t *testing.T) {
	const floor, pods = 6, 5
	s := newSharedCells(t, floor, pods, "a", "b")
	k := s.keepers["a"]
	if err := s.shares["a"].Delete(t.Context(), s.share("a")); err != nil { // the CRD's finalizer deletes the objects; the cache sees that
		t.Fatal(err)
	}
	k.Shares = denyingCreation{s.shares["a"], errUnserved} // the cache has no shares
	k.Live = unserved{s.shares["a"]}
	left := int32(pods)
	for range 5 {
		left-- // a pod of a dies
		for range 3 {
			next := s.p.DeepCopy()
			counts := &quota.CellOf(next, "a").Aggregation
			counts.CountedReplicas, counts.CountedSpec = left, quota.CountedSpec(&next.Spec)
			_, err := k.Step(t.Context(), s.p.DeepCopy(), next, func(*v1alpha1.PodProtector) {})
			if IsOutdated(err) { // as reconciler.write, which stores nothing
				continue
			}
			s.p = next
		}
		s.step("b")
	}
	if counted := quota.CellOf(s.p, "a").Aggregation.CountedReplicas; counted != left {
		t.Errorf("the core counts %d pods of a, which has %d", counted, left)
	}
	for range 5 {
		s.step("b")
	}
	if admitted := s.remove("b"); admitted > 0 {
		t.Errorf("b admits %d removals of its %d pods, which are all that are left of a floor of %d", admitted, pods, floor)
	}
}
