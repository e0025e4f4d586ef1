package charts_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// A Binding adds its annotations to the pod.
func TestBindingCannotBreakTheGlass(t *testing.T) {
	c, namespace := apiserver(t), testplane.Namespace(t)
	restrictBreakGlass(t, c)
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Verbs: []string{"get", "create", "patch"}, Resources: []string{"pods", "pods/binding", "bindings"},
	}}
	user := clientFor(t, testplane.User(t, "scheduler-"+namespace, rules))
	testplane.Eventually(t, func() string {
		probe, meta := annotatableObjects(namespace, "probe")["Pod"]()
		annotate(meta)
		if err := user.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		return ""
	})
	for _, name := range []string{"annotated", "plain"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
		wantAllowed(t, "create", user.Create(t.Context(), pod))
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		if name == "plain" {
			wantAllowed(t, "bindings without it", user.Create(t.Context(), binding.DeepCopy(), client.DryRunAll))
			wantAllowed(t, "pods/binding without it", user.SubResource("binding").Create(t.Context(), pod, binding))
			continue
		}
		annotate(&binding.ObjectMeta)
		wantDenied(t, "bindings with the annotation", user.Create(t.Context(), binding.DeepCopy(), client.DryRunAll))
		wantDenied(t, "pods/binding with the annotation", user.SubResource("binding").Create(t.Context(), pod, binding))
		bound := &corev1.Pod{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, bound); err != nil || bound.Annotations[v1alpha1.AnnotationForceDelete] == "true" {
			t.Errorf("the pod is bound to %q with %v (%v)", bound.Spec.NodeName, bound.Annotations, err)
		}
	}
}
