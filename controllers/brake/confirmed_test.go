package brake

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// A user may have withdrawn a confirmation that a late cache still shows, and a restored core may have lost it.
func TestConfirmationOfNamespaceIsReadLive(t *testing.T) {
	reader := func(isConfirmed bool) client.Client {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		if isConfirmed {
			namespace.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
		}
		return fake.NewClientBuilder().WithObjects(namespace).Build()
	}
	request := brake.Request{Protector: &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	for _, cached := range []bool{true, false} {
		for _, live := range []bool{true, false} {
			b := &Brake{Client: reader(cached), Live: reader(live), Now: time.Now}
			if got, want := b.isConfirmed(t.Context(), request), cached && live; got != want {
				t.Errorf("confirmed in the cache %v, at the API server %v: isConfirmed() = %v, want %v", cached, live, got, want)
			}
		}
	}
}
