package shares

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
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
		k := &Keeper{Cell: cell, Shares: stored, Core: fakeShares()}
		if err := k.create(t.Context(), p); err != nil {
			t.Fatalf("create the share of cell %s: %v", cell, err)
		}
		share, err := k.find(t.Context(), k.Shares, p)
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
			k := &Keeper{Cell: "a", Shares: fakeShares(), Core: core, CoreUID: "core"}
			must(k.create(t.Context(), protector("first")))
			if test.released {
				must(clusters.RecordRelease(t.Context(), core, protector("first"), "test"))
			}
			found, err := k.find(t.Context(), k.Shares, protector(test.uid))
			if IsOutdated(err) != test.outdated || !test.outdated && err != nil {
				t.Fatalf("find: %v, want outdated %v", err, test.outdated)
			}
			if taken := found != nil && err == nil; taken != (test.want == "new") {
				t.Errorf("found %+v, want that the share is taken over: %v", found, test.want == "new")
			}
			all, err := k.sharesOf(t.Context(), k.Shares, client.ObjectKeyFromObject(protector("new")))
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

// storedShare is a share of a protector that has, or had, a UID.
type storedShare struct {
	uid      string
	open     bool
	floor    int32
	reserved int
}

// store creates the share.
func (s storedShare) store(t *testing.T, k *Keeper, p *v1alpha1.PodProtector) {
	t.Helper()
	spec := k.shareSpec(p)
	spec.ShareOf.UID, spec.ShareOf.Closed, spec.MinAvailable = s.uid, !s.open, v1alpha1.Pods(s.floor)
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: shareName(p.Name, s.uid)}, Spec: *spec}
	if err := k.Shares.Create(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	cell := v1alpha1.PodProtectorCell{CellID: k.Cell}
	for range s.reserved {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{PodUID: "pod", Counter: 1})
	}
	share.Status.Cells = []v1alpha1.PodProtectorCell{cell}
	if err := k.Shares.Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
}

func storedSharesOf(t *testing.T, k *Keeper, p *v1alpha1.PodProtector) (stored []storedShare) {
	t.Helper()
	all, err := k.sharesOf(t.Context(), k.Shares, client.ObjectKeyFromObject(p))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		share := &all.Items[i]
		stored = append(stored, storedShare{
			share.Spec.ShareOf.UID, !share.Spec.ShareOf.Closed, int32(share.Spec.MinAvailable.IntValue()), quota.Open(&share.Status.Cells[0].AdmissionHistory),
		})
	}
	slices.SortFunc(stored, func(a, b storedShare) int { return strings.Compare(a.uid, b.uid) })
	return stored
}

// A cluster that was restored may bring back a share that the protector has replaced since.
func TestSurplusShareEnds(t *testing.T) {
	for name, test := range map[string]struct{ stored, want []storedShare }{
		"a restored one is open":   {[]storedShare{{uid: "new"}, {uid: "first", open: true, floor: 2}}, []storedShare{{uid: "first", open: true, floor: 2}}},
		"a restored one is closed": {[]storedShare{{uid: "new", open: true, floor: 2}, {uid: "first", floor: 1}}, []storedShare{{uid: "new", open: true, floor: 2}}},
		"both are open": {
			[]storedShare{{uid: "new", open: true, floor: 2}, {uid: "first", open: true, floor: 3}}, []storedShare{{uid: "new", open: true, floor: 3}},
		},
		"it still has a reservation": {
			[]storedShare{{uid: "new"}, {uid: "first", open: true, reserved: 1}, {uid: "second", reserved: 1}},
			[]storedShare{{uid: "first", open: true, reserved: 1}, {uid: "second", reserved: 1}},
		},
		"of a forgotten protector": {[]storedShare{{uid: "new", open: true}, {uid: "forgotten", open: true}}, []storedShare{{uid: "new", open: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", UID: "new", Finalizers: []string{v1alpha1.FinalizerHold}, Annotations: map[string]string{v1alpha1.AnnotationRestored: "first"},
			}}
			core := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(p.DeepCopy()).Build()
			k := &Keeper{Cell: "a", Shares: fakeShares(), Core: core, CoreUID: "core"}
			for _, share := range test.stored {
				share.store(t, k, p)
			}
			_, err := k.find(t.Context(), k.Shares, p)
			for step := 0; IsOutdated(err) && step < 5; step++ {
				_, err = k.find(t.Context(), k.Shares, p)
			}
			if got := storedSharesOf(t, k, p); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("find() leaves the shares %+v, error %v; want %+v", got, err, test.want)
			}
		})
	}
}
