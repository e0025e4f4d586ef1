package clusters

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

func withFilter(namespace string) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "web", UID: "u-" + "1", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a"}}
	return p
}

func TestCacheKeepsOnlyIncludedProtectorsWhole(t *testing.T) {
	interest, options := &CacheFilter{}, cache.Options{}
	interest.Select(&options)
	var transform toolscache.TransformFunc
	for _, of := range options.ByObject {
		transform = of.Transform
	}
	shop, other := slot.Set{}.With(slot.Of("shop")), slot.Set{}.With(slot.Of("other"))
	whole := func(namespace string) bool {
		t.Helper()
		kept, err := transform(withFilter(namespace))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := kept.(*v1alpha1.PodProtector)
		if p.Namespace != namespace || p.Name != "web" || p.UID == "" || p.ResourceVersion != "7" || len(p.ManagedFields) > 0 {
			t.Fatalf("%+v is kept", p.ObjectMeta)
		}
		if IsStub(p) != (len(p.Status.Cells) == 0) {
			t.Fatalf("left out: %v, with %d cells", IsStub(p), len(p.Status.Cells))
		}
		return !IsStub(p)
	}
	if whole("shop") {
		t.Error("a protector is kept whole without interest, want a stub")
	}
	interest.Set("a", shop)
	interest.Set("b", other)
	if !whole("shop") || !whole("other") || whole("third") {
		t.Error("kept protectors differ from the union of interests")
	}
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for _, namespace := range []string{"shop", "other"} {
		if err := store.Add(withFilter(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	interest.Set("a", slot.Set{})
	interest.StripExcluded(store)
	later := withFilter("shop")
	later.ResourceVersion = "8"
	interest.RestoreIncluded(store, withFilter("shop"))
	interest.Set("a", shop)
	interest.RestoreIncluded(store, later)
	if p, _, _ := store.GetByKey("shop/web"); !IsStub(p.(*v1alpha1.PodProtector)) { //nolint:forcetypeassert // a test
		t.Error("RestoreIncluded() stored another version, or a protector outside of the interest")
	}
	interest.RestoreIncluded(store, withFilter("shop"))
	if p, _, _ := store.GetByKey("shop/web"); IsStub(p.(*v1alpha1.PodProtector)) { //nolint:forcetypeassert // a test
		t.Error("RestoreIncluded() did not replace the stub")
	}
	interest.Set("a", slot.Set{})
	interest.StripExcluded(store)
	for _, object := range store.List() {
		if p, _ := object.(*v1alpha1.PodProtector); IsStub(p) != (p.Namespace == "shop") {
			t.Errorf("%s is left out: %v", p.Namespace, IsStub(p))
		}
	}
}

// A stub must never be mistaken for a protector without reservations.
func TestStubsAreReadFromAPIServer(t *testing.T) {
	stored := withFilter("shop")
	stored.ManagedFields, stored.ResourceVersion = nil, ""
	live := fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(stored).WithStatusSubresource(stored).Build()
	key := client.ObjectKeyFromObject(stored)
	left := withFilter("shop")
	if err := live.Get(context.Background(), key, left); err != nil {
		t.Fatal(err)
	}
	stripped := fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(stubOf(left)).Build()
	protectors := &Protectors{Cache: stripped, Live: live, Writer: live}
	p, err := protectors.Newest(context.Background(), key)
	if err != nil || IsStub(p) || len(p.Status.Cells) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	p.Status.Cells[0].Aggregation.Epoch = 5
	if err := protectors.WriteStatus(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if p, err = protectors.Newest(context.Background(), key); err != nil || p.Status.Cells[0].Aggregation.Epoch != 5 {
		t.Fatalf("%+v, %v", p, err)
	}
}
