package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func deployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	replicas := int32(10)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", Labels: map[string]string{"team": "a"}},
		Spec: appsv1.DeploymentSpec{
			Replicas:        &replicas,
			MinReadySeconds: 15,
			Strategy:        rolling("25%", "30%"),
			Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"app": "web"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"front", "back"}},
				},
			},
		},
	}
	if change != nil {
		change(d)
	}
	return d
}

func TestFromDeploymentSetsOnlyTheFieldsOfTheGenerator(t *testing.T) {
	got, err := FromDeployment(deployment(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "shop",
			Name:        "deployment-web",
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "breakwater-generator", "breakwater.dev/source-kind": "Deployment"},
			Annotations: map[string]string{"breakwater.dev/source-name": "web", "breakwater.dev/source-api-version": "apps/v1", "breakwater.dev/source-uid": "uid-1"},
			Finalizers:  []string{"breakwater.dev/protector"},
		},
		Spec: v1alpha1.PodProtectorSpec{
			Selector: &v1alpha1.PodSelector{
				MatchLabels: map[string]string{"app": "web"},
				MatchExpressions: []v1alpha1.PodSelectorRequirement{
					{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"front", "back"}},
				},
			},
			MinAvailable:    v1alpha1.Pods(7),
			MinReadySeconds: 15,
		},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
	if got.Reason != v1alpha1.ReasonSourceFound {
		t.Errorf("Reason = %q, want %q", got.Reason, v1alpha1.ReasonSourceFound)
	}
}

func TestFromDeploymentExplainsTheFloorOfRecreate(t *testing.T) {
	got, err := FromDeployment(deployment(func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Object.Spec.MinAvailable.IntVal != 0 || got.Reason != v1alpha1.ReasonRecreateStrategy || !strings.Contains(got.Message, "RollingUpdate") {
		t.Errorf("floor %s, reason %q, message %q", got.Object.Spec.MinAvailable, got.Reason, got.Message)
	}
}

func TestFromDeploymentCopiesItsSource(t *testing.T) {
	d := deployment(nil)
	got, err := FromDeployment(d)
	if err != nil {
		t.Fatal(err)
	}
	got.Object.Spec.Selector.MatchLabels["app"] = "changed"
	got.Object.Spec.Selector.MatchExpressions[0].Values[0] = "changed"
	if diff := cmp.Diff(deployment(nil), d); diff != "" {
		t.Error(diff)
	}
}

func TestFromDeploymentRejectsAMissingSelector(t *testing.T) {
	got, err := FromDeployment(deployment(func(d *appsv1.Deployment) { d.Spec.Selector = nil }))
	if err == nil || !strings.Contains(err.Error(), "spec.selector") {
		t.Errorf("FromDeployment() = %+v, %v, want an error about spec.selector (an empty selector would protect every pod)", got.Object, err)
	}
}

func TestIsGenerated(t *testing.T) {
	for claim, c := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"by its label": {metav1.ObjectMeta{Labels: map[string]string{LabelManagedBy: ManagedBy}}, true},
		"by its finalizer when a user removed the label": {metav1.ObjectMeta{Finalizers: []string{v1alpha1.FinalizerProtector}}, true},
		"not when another tool manages it":               {metav1.ObjectMeta{Labels: map[string]string{LabelManagedBy: "Helm"}}, false},
		"not by its name":                                {metav1.ObjectMeta{Name: "deployment-web"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := IsGenerated(&v1alpha1.PodProtector{ObjectMeta: c.meta}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
