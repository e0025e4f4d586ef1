package aggregator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// These are the errors that shareKeeper.create expects.
func TestAPIServerDeniesSharesWithoutTheirNamespace(t *testing.T) {
	l := newFixture(t)
	share := func(namespace string) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web.share"}}
		p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, v1alpha1.Pods(0)
		p.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: l.cell, Closed: true}
		return p
	}
	if err := l.client.Create(t.Context(), share("absent")); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that does not exist: %v, want NotFound", err)
	}
	ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-ending"}}
	l.create(ending) // no controller ends it
	if err := l.client.Delete(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Create(t.Context(), share(ending.Name)); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("in a namespace that is being deleted: %v, want that the namespace terminates", err)
	}
}
