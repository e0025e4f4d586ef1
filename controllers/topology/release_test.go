package topology

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// The entries that a protector had when it vanished come back with its status.
func TestDeletedCellIsHeldWhileProtectorIsUnfinished(t *testing.T) {
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "uid-of-the-cell", Finalizers: []string{v1alpha1.FinalizerCell}}}
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Annotations: map[string]string{v1alpha1.AnnotationRestored: "uid-of-the-lost-one"},
	}}
	c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(cell, p).WithStatusSubresource(p).Build()
	r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(10)}
	if err := c.Delete(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	release := func() (released bool) {
		t.Helper()
		now := &v1alpha1.Cell{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cell), now); err != nil {
			t.Fatal(err)
		}
		if err := r.releaseCell(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		return c.Get(t.Context(), client.ObjectKeyFromObject(cell), now) != nil
	}
	if release() {
		t.Fatal("releaseCell() released the Cell, want it held until the recreated PodProtector has its status")
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVanished})
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if !release() {
		t.Error("releaseCell() held the Cell, want it released: the recreated PodProtector has no entry of it")
	}
}
