package generator

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// CacheOptions keep out of memory what the generator does not look at. All Deployments are cached, not only
// selected ones: a Deployment that opts out must be told from one that is gone. So each of them must be small.
// Nothing that comes from this cache may be written back whole.
func CacheOptions() crcache.Options {
	return crcache.Options{
		ByObject: map[client.Object]crcache.ByObject{
			&appsv1.Deployment{}:     {Transform: strip(stripDeployment)},
			&v1alpha1.PodProtector{}: {Transform: strip(stripProtector)},
		},
	}
}

// strip adapts a function to informers, which also pass other things: those stay as they are.
func strip[T any](change func(T)) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(T); ok {
			change(typed)
		}
		return object, nil
	}
}

func stripDeployment(d *appsv1.Deployment) {
	d.ObjectMeta = metav1.ObjectMeta{
		Namespace:         d.Namespace,
		Name:              d.Name,
		UID:               d.UID,
		ResourceVersion:   d.ResourceVersion,
		Generation:        d.Generation,
		Labels:            d.Labels,
		Finalizers:        d.Finalizers,
		DeletionTimestamp: d.DeletionTimestamp,
	}
	d.Spec = appsv1.DeploymentSpec{
		Replicas:        d.Spec.Replicas,
		Selector:        d.Spec.Selector,
		Strategy:        d.Spec.Strategy,
		MinReadySeconds: d.Spec.MinReadySeconds,
	}
	d.Status = appsv1.DeploymentStatus{}
}

// stripProtector keeps the cells with their reservations, although they are most of a protector in a storm: one that
// vanishes is made anew with them.
func stripProtector(p *v1alpha1.PodProtector) {
	p.ManagedFields = nil
	p.Status = v1alpha1.PodProtectorStatus{Conditions: p.Status.Conditions, Cells: p.Status.Cells}
}
