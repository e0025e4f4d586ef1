package charts_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func podTemplates(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	pods := map[string]corev1.PodTemplateSpec{}
	for _, d := range objectsOfKind[appsv1.Deployment](t, objects, "Deployment") {
		pods[d.Name] = d.Spec.Template
	}
	for _, j := range objectsOfKind[batchv1.Job](t, objects, "Job") {
		pods[j.Name] = j.Spec.Template
	}
	for _, p := range objectsOfKind[corev1.Pod](t, objects, "Pod") {
		pods[p.Name] = corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	}
	return pods
}

// TestPodsAreRestricted checks all pods with the Pod Security admission library of Kubernetes.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	forEachValueSet(t, func(t *testing.T, set string) {
		for name, template := range podTemplates(t, render(t, "--values", set, "--set", "webhook.hostNetwork=false,sharder.hostNetwork=false")) {
			for _, result := range evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
			for _, container := range template.Spec.Containers {
				if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s: the root filesystem of %s is writable", name, container.Name)
				}
			}
		}
	})
}

func TestReplicasAreSpreadAndHaveDisruptionBudgets(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/mesh.yaml")
	budgets := map[string]*policyv1.PodDisruptionBudget{}
	for _, b := range objectsOfKind[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget") {
		budgets[b.Name] = b
	}
	for _, d := range objectsOfKind[appsv1.Deployment](t, objects, "Deployment") {
		b := budgets[d.Name]
		if b == nil || b.Spec.UnhealthyPodEvictionPolicy == nil || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
			t.Errorf("%s: PodDisruptionBudget %+v", d.Name, b)
			continue
		}
		for key, value := range b.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("%s: the PodDisruptionBudget selects %s=%s, the pods have %q", d.Name, key, value, d.Spec.Template.Labels[key])
			}
		}
		spec := d.Spec.Template.Spec
		if len(spec.TopologySpreadConstraints) != 2 || spec.PriorityClassName != "system-cluster-critical" {
			t.Errorf("%s: spread %+v, priority %q", d.Name, spec.TopologySpreadConstraints, spec.PriorityClassName)
		}
		if c := spec.Containers[0]; c.LivenessProbe == nil || c.ReadinessProbe == nil || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: probes or resources are missing: %+v", d.Name, c)
		}
	}
	// No two Deployments select the same pods.
	seen := map[string]string{}
	for _, d := range objectsOfKind[appsv1.Deployment](t, objects, "Deployment") {
		key := labelsText(d.Spec.Selector.MatchLabels)
		if seen[key] != "" {
			t.Errorf("%s and %s select the same pods: %s", d.Name, seen[key], key)
		}
		seen[key] = d.Name
	}
}
