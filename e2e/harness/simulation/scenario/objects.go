package scenario

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Namespace holds all pods and protectors of a scenario with a single namespace.
const Namespace = "default"

// NamespaceName returns the name of the nth namespace.
func NamespaceName(n int) string {
	if n == 0 {
		return Namespace
	}
	return fmt.Sprint("team-", n)
}

// User is the actor that changes objects on purpose or by accident.
const User = "user"

// Key returns the name of the Deployment.
func (p SourcePlan) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// ProtectorOf returns the key of the protector of a Deployment.
func ProtectorOf(source types.NamespacedName) types.NamespacedName {
	name := policy.ProtectorName(policy.Ref{Group: "apps", Kind: "Deployment", Name: source.Name})
	return types.NamespacedName{Namespace: source.Namespace, Name: name}
}

// ProtectorKey returns the name of the protector of the Deployment.
func (p SourcePlan) ProtectorKey() types.NamespacedName { return ProtectorOf(p.Key()) }

// ProtectLabel returns the label by which a Deployment requests a protector.
func ProtectLabel() map[string]string { return map[string]string{v1alpha1.LabelProtect: "true"} }

// NamespaceObject has a finalizer, as each namespace of Kubernetes has one in its spec.
func NamespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes"}}}
}

// SetConfirmation sets the confirmation of an object. An empty value removes it.
func SetConfirmation(value string) func(client.Object) {
	return func(o client.Object) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AnnotationConfirmRelease] = value
		if value == "" {
			delete(annotations, v1alpha1.AnnotationConfirmRelease)
		}
		o.SetAnnotations(annotations)
	}
}

// SetReady makes a pod ready or not ready, from now on.
func SetReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}
}

// SourceName is the name of the Deployment that the pods belong to. The generator creates its protector.
const SourceName = "web"

// DeploymentKind returns the kind of Deployments.
func DeploymentKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("Deployment")
}

// IsBreakGlass reports whether the removal of a pod is a break-glass removal.
func IsBreakGlass(pod *corev1.Pod) bool {
	return metav1.HasAnnotation(pod.ObjectMeta, v1alpha1.AnnotationForceDelete)
}
