package aggregator_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A share keeps pods of its own cell. Pods of another cell of the cluster, if they counted, would let it admit too many removals (rule S1).
func TestShareCountsOnlyPodsOfItsCell(t *testing.T) {
	l := newFixture(t)
	l.ofShares = true
	a, b := l.withCell("a", ofCell("a")), l.withCell("b", ofCell("b"))
	share := func(of string) *v1alpha1.ShareOf { return &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: of} }
	p := l.createProtector(func(spec *v1alpha1.PodProtectorSpec) { spec.ShareOf = share(a.cell) })
	other := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "z"}, Spec: *p.Spec.DeepCopy()}
	other.Spec.ShareOf = share(b.cell)
	l.create(other)
	for i, label := range []string{"a", "a", "a", "b", "b"} {
		l.createPodIn(fmt.Sprint("web-", i), label)
	}
	a.run("a")
	b.run("b")
	l.eventually(func() string { // b has handled both shares, the first by name first
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
			return err.Error()
		}
		if c := quota.CellOf(other, b.cell); c == nil || c.Aggregation.CountedReplicas != 2 {
			return fmt.Sprintf("the share of b is %+v, want 2 pods", other.Status)
		}
		return ""
	})
	p = l.wantCounts(map[string]int32{a.cell: 3})
	if p.Status.DisruptionsAllowed != 2 || len(other.Status.Cells) != 1 {
		t.Errorf("the share of a allows %d removals, want 2 (share 1, available 3); the share of b has cells %+v, want its own", p.Status.DisruptionsAllowed, other.Status.Cells)
	}
}
