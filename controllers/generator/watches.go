package generator

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
)

// deploymentChanged drops the status writes of rollouts.
func deploymentChanged() predicate.TypedPredicate[*appsv1.Deployment] {
	return predicate.TypedFuncs[*appsv1.Deployment]{
		UpdateFunc: func(e event.TypedUpdateEvent[*appsv1.Deployment]) bool {
			return metadataChanged(e.ObjectOld, e.ObjectNew) || !equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec)
		},
	}
}

// protectorChanged drops the status writes of webhooks and aggregators, of which a storm makes many; but somebody
// who undoes our condition is heard. A loss is noted here before its Deployment's turn comes, whoever else notes it.
func protectorChanged(losses Losses) predicate.TypedPredicate[*v1alpha1.PodProtector] {
	return predicate.TypedFuncs[*v1alpha1.PodProtector]{
		DeleteFunc: func(e event.TypedDeleteEvent[*v1alpha1.PodProtector]) bool {
			if losses != nil {
				losses.Note(e.Object)
			}
			return true
		},
		UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.PodProtector]) bool {
			return metadataChanged(e.ObjectOld, e.ObjectNew) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec) || !equality.Semantic.DeepEqual(
				meta.FindStatusCondition(e.ObjectOld.Status.Conditions, v1alpha1.ConditionTargetResolved),
				meta.FindStatusCondition(e.ObjectNew.Status.Conditions, v1alpha1.ConditionTargetResolved))
		},
	}
}

// metadataChanged sees a begin of deletion and a change of labels, annotations (which cached Deployments do not
// have) and finalizers. The generation, which a change of the spec raises, is not asked alone: in a core that was
// restored from a backup, the same one comes a second time. A resync, which repeats an object unchanged, also
// passes: it is our insurance against an event that we handled wrongly.
func metadataChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		before.GetResourceVersion() == after.GetResourceVersion() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers())
}

// sourceOf leads from a protector, ours or not, to the Deployment whose protector it is or would be.
func sourceOf(_ context.Context, protector *v1alpha1.PodProtector) []reconcile.Request {
	name, ok := desired.SourceName(protector)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: protector.Namespace, Name: name}}}
}
