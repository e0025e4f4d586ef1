package aggregator

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// fakeShares returns a client of a cluster of a cell, which has no shares.
func fakeShares() client.Client {
	return fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{}).
		WithIndex(&v1alpha1.PodProtector{}, shareOfName, func(o client.Object) []string { return []string{o.(*v1alpha1.PodProtector).Spec.ShareOf.Name} }).Build()
}

// Several cells may be in one cluster, each with a share of the same protector.
func TestCellsOfOneClusterHaveSharesOfTheirOwn(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	stored := fakeShares()
	found := map[string]bool{}
	for _, cell := range []string{"a", "b"} {
		k := &shareKeeper{cell: cell, shares: stored}
		if err := k.create(t.Context(), p, false); err != nil {
			t.Fatalf("create the share of cell %s: %v", cell, err)
		}
		share, err := k.find(t.Context(), p)
		if err != nil || share == nil || share.Spec.ShareOf.Cell != cell {
			t.Fatalf("the share of cell %s is %+v, error %v", cell, share, err)
		}
		found[share.Name] = true
	}
	if len(found) != 2 {
		t.Errorf("shares %v, want one for each cell", found)
	}
}

// After several losses and restores, a protector may not know the UID that its share has.
func TestShareOfLostProtectorIsTakenOver(t *testing.T) {
	protector := func(uid types.UID) *v1alpha1.PodProtector {
		return &v1alpha1.PodProtector{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, Finalizers: []string{v1alpha1.FinalizerHold}},
		}
	}
	for name, test := range map[string]struct {
		// uid is that of the protector that the aggregator knows; the core has the one with UID new.
		uid      types.UID
		released bool
		// want is the UID of the protector to which the share belongs afterwards; empty if the share is deleted.
		want     string
		outdated bool
	}{
		"its protector was lost":                          {uid: "new", want: "new"},
		"its protector was released":                      {uid: "new", released: true},
		"the aggregator knows only an outdated protector": {uid: "outdated", want: "first", outdated: true},
	} {
		t.Run(name, func(t *testing.T) {
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(protector("new")).Build()
			k := &shareKeeper{cell: "a", shares: fakeShares(), core: core}
			must(k.create(t.Context(), protector("first"), false))
			if test.released {
				must(clusters.RecordRelease(t.Context(), core, protector("first"), "test"))
			}
			found, err := k.find(t.Context(), protector(test.uid))
			if isOutdated(err) != test.outdated || !test.outdated && err != nil {
				t.Fatalf("find: %v, want outdated %v", err, test.outdated)
			}
			if taken := found != nil && err == nil; taken != (test.want == "new") {
				t.Errorf("found %+v, want that the share is taken over: %v", found, test.want == "new")
			}
			all, err := k.sharesOf(t.Context(), keyOf(protector("new")))
			must(err)
			var owners []string
			for i := range all.Items {
				owners = append(owners, all.Items[i].Spec.ShareOf.UID)
			}
			if got := strings.Join(owners, " "); got != test.want {
				t.Errorf("shares of protectors %q, want %q", got, test.want)
			}
		})
	}
}
