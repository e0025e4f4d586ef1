package clusters_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestSchemeHasKubernetesAndBreakwaterKinds(t *testing.T) {
	scheme := clusters.Scheme()
	for _, object := range []runtime.Object{&corev1.Pod{}, &appsv1.Deployment{}, &v1alpha1.PodProtector{}, &v1alpha1.Cell{}} {
		if _, _, err := scheme.ObjectKinds(object); err != nil {
			t.Error(err)
		}
	}
}
