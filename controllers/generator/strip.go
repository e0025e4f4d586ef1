package generator

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// CacheOptions omit from memory what the generator does not use. The cache holds all workloads, not only selected ones: the generator must
// distinguish a workload that opts out from one that no longer exists. So each cached workload must be small. No object of this cache may
// be written back whole.
func CacheOptions() crcache.Options {
	options := clusters.CacheOptions()
	options.ByObject = map[client.Object]crcache.ByObject{
		&appsv1.Deployment{}:            {Transform: strip(stripDeployment)},
		&appsv1.StatefulSet{}:           {Transform: strip(stripStatefulSet)},
		&appsv1.ReplicaSet{}:            {Transform: strip(stripReplicaSet)},
		&corev1.ReplicationController{}: {Transform: strip(stripReplicationController)},
		&v1alpha1.PodProtector{}:        {Transform: strip(stripProtector)},
	}
	return options
}

// strip adapts a function to informers, which also pass objects of other types: those stay unchanged.
func strip[T any](change func(T)) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(T); ok {
			change(typed)
		}
		return object, nil
	}
}

// stripObjectMeta returns the metadata that the generator uses. Its only annotations are the confirmation, and those with the prefix of
// Breakwater that have no effect on a workload. Others that Breakwater sets change often.
func stripObjectMeta(object *metav1.ObjectMeta) metav1.ObjectMeta {
	var annotations map[string]string
	keep := func(key string) {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = object.Annotations[key]
	}
	if _, ok := object.Annotations[v1alpha1.AnnotationConfirmRelease]; ok {
		keep(v1alpha1.AnnotationConfirmRelease)
	}
	for _, mistake := range policy.Mistakes(v1alpha1.KeyOnWorkload, nil, object.Annotations) {
		keep(mistake.Key)
	}
	return metav1.ObjectMeta{
		Namespace:         object.Namespace,
		Name:              object.Name,
		UID:               object.UID,
		ResourceVersion:   object.ResourceVersion,
		Generation:        object.Generation,
		Labels:            object.Labels,
		Annotations:       annotations,
		Finalizers:        object.Finalizers,
		OwnerReferences:   object.OwnerReferences,
		DeletionTimestamp: object.DeletionTimestamp,
	}
}

// stripMetadata sets the kind on metadata objects, because events need it.
func stripMetadata(kind schema.GroupVersionKind) func(*metav1.PartialObjectMetadata) {
	return func(object *metav1.PartialObjectMetadata) {
		object.ObjectMeta = stripObjectMeta(&object.ObjectMeta)
		if !kind.Empty() {
			object.SetGroupVersionKind(kind)
		}
	}
}

func stripDeployment(d *appsv1.Deployment) {
	d.ObjectMeta = stripObjectMeta(&d.ObjectMeta)
	d.Spec = appsv1.DeploymentSpec{
		Replicas:        d.Spec.Replicas,
		Selector:        d.Spec.Selector,
		Strategy:        d.Spec.Strategy,
		MinReadySeconds: d.Spec.MinReadySeconds,
	}
	d.Status = appsv1.DeploymentStatus{}
}

func stripStatefulSet(s *appsv1.StatefulSet) {
	s.ObjectMeta = stripObjectMeta(&s.ObjectMeta)
	s.Spec = appsv1.StatefulSetSpec{
		Replicas:        s.Spec.Replicas,
		Selector:        s.Spec.Selector,
		UpdateStrategy:  s.Spec.UpdateStrategy,
		MinReadySeconds: s.Spec.MinReadySeconds,
	}
	s.Status = appsv1.StatefulSetStatus{}
}

func stripReplicaSet(s *appsv1.ReplicaSet) {
	s.ObjectMeta = stripObjectMeta(&s.ObjectMeta)
	s.Spec = appsv1.ReplicaSetSpec{Replicas: s.Spec.Replicas, Selector: s.Spec.Selector, MinReadySeconds: s.Spec.MinReadySeconds}
	s.Status = appsv1.ReplicaSetStatus{}
}

// stripReplicationController keeps the selector, which the API server defaults.
func stripReplicationController(c *corev1.ReplicationController) {
	c.ObjectMeta = stripObjectMeta(&c.ObjectMeta)
	c.Spec = corev1.ReplicationControllerSpec{Replicas: c.Spec.Replicas, Selector: c.Spec.Selector, MinReadySeconds: c.Spec.MinReadySeconds}
	c.Status = corev1.ReplicationControllerStatus{}
}

// specOf returns the stripped spec of a cached source.
func specOf(object client.Object) any {
	switch source := object.(type) {
	case *appsv1.Deployment:
		return source.Spec
	case *appsv1.StatefulSet:
		return source.Spec
	case *appsv1.ReplicaSet:
		return source.Spec
	case *corev1.ReplicationController:
		return source.Spec
	case *v1alpha1.ProtectionPolicy:
		return source.Spec
	case *v1alpha1.ClusterProtectionPolicy:
		return source.Spec
	default:
		return nil
	}
}

// stripProtector keeps the cells with their reservations, although they are most of a protector in a storm, and the owners of other fields: the
// keeper recreates a protector that vanishes with them.
func stripProtector(p *v1alpha1.PodProtector) {
	p.ManagedFields = slices.DeleteFunc(p.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource != "" })
	p.Status = v1alpha1.PodProtectorStatus{Conditions: p.Status.Conditions, Cells: p.Status.Cells}
}
