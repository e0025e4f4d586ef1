package generator

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/workload"
)

// isReplaced reports whether a source is a ReplicaSet or ReplicationController whose controller states the number of the pods of all its sets (rule
// 16). That controller is the source then. reconcileProtectors keeps existing protectors of such a set.
func (k *Kinds) isReplaced(ctx context.Context, ref policy.Ref, source client.Object) (bool, error) {
	controller := metav1.GetControllerOfNoCopy(source)
	if controller == nil || !workload.IsReplaceable(ref.GroupKind()) {
		return false, nil
	}
	above := policy.Ref{Kind: controller.Kind, Namespace: ref.Namespace, Name: controller.Name}
	above.Group = schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).Group
	if workload.IsDeployment(above.GroupKind()) {
		return true, nil
	}
	mapping, err := k.mapper.RESTMapping(above.GroupKind())
	if err != nil {
		return false, ignoreNotServed(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		above.Namespace = metav1.NamespaceNone
	}
	scale, err := k.getScale(ctx, above, mapping.Resource)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInternalError(err): // nothing shows that it replaces the set
		return false, nil
	case err != nil || scale == nil:
		return false, err
	}
	selection, err := workload.SelectionOf(scale.Status.Selector, slices.Values([]map[string]string{matchLabelsOf(source)}))
	if err != nil {
		return false, nil //nolint:nilerr // a malformed selector selects no pods
	}
	return workload.Replaces(workload.Scale{Exists: true, Selection: selection}), nil
}

// matchLabelsOf returns labels that all pods of a set have.
func matchLabelsOf(set client.Object) map[string]string {
	switch s := set.(type) {
	case *appsv1.ReplicaSet:
		if s.Spec.Selector != nil {
			return maps.Clone(s.Spec.Selector.MatchLabels)
		}
	case *corev1.ReplicationController:
		return maps.Clone(s.Spec.Selector)
	}
	return nil
}
