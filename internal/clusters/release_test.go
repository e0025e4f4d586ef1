package clusters_test

import (
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// A namespace takes its events along when it is deleted.
func TestReleaseIsKnownAfterItsNamespaceHasEnded(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).Build()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "recreated", Annotations: map[string]string{v1alpha1.AnnotationRestored: "lost"},
	}}
	if err := clusters.RecordRelease(t.Context(), c, p, "keeper"); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteAllOf(t.Context(), &eventsv1.Event{}, client.InNamespace(p.Namespace)); err != nil {
		t.Fatal(err)
	}
	lost := p.DeepCopy()
	lost.UID = "lost"
	for _, of := range []*v1alpha1.PodProtector{p, lost} {
		if released, err := clusters.WasReleased(t.Context(), c, of); err != nil || !released {
			t.Errorf("WasReleased(%s) = %v, %v, want true", of.UID, released, err)
		}
	}
}
