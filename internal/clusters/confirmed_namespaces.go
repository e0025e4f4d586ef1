package clusters

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	controller "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// ConfirmedNamespaces returns a source that maps a namespace whose confirmation annotation changed to the protectors in it that wait for a
// confirmation.
func ConfirmedNamespaces[K comparable](mgr manager.Manager, of func(*v1alpha1.PodProtector) []K) controller.TypedSource[K] {
	follow := func(ctx context.Context, changed *metav1.PartialObjectMetadata) []K {
		var list v1alpha1.PodProtectorList
		if err := mgr.GetClient().List(ctx, &list, client.InNamespace(changed.Name), client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache has stopped
		}
		var keys []K
		for i := range list.Items {
			if awaitsConfirmation(&list.Items[i]) {
				keys = append(keys, of(&list.Items[i])...)
			}
		}
		return keys
	}
	confirmed := predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
			return e.ObjectOld.Annotations[v1alpha1.AnnotationConfirmRelease] != e.ObjectNew.Annotations[v1alpha1.AnnotationConfirmRelease]
		},
	}
	return controller.TypedKind(mgr.GetCache(), EmptyNamespace(), handler.TypedEnqueueRequestsFromMapFunc(follow), confirmed)
}

// awaitsConfirmation reports whether a protector has a large decrease pending, or stays although its source vanished.
func awaitsConfirmation(p *v1alpha1.PodProtector) bool {
	_, isPending := brake.PendingOf(p)
	target := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return isPending || target != nil && target.Reason == v1alpha1.ReasonSourceVanished
}

// EmptyNamespace returns the object into which clients read the metadata of a namespace.
func EmptyNamespace() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}
