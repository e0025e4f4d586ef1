package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// The policy is a Kubernetes built-in, so only an API server can evaluate it.
func TestPolicyForbidsChangingCellLabels(t *testing.T) {
	l := newFixture(t)
	key := l.namespace + "/cell" // the API server is shared between tests
	policy := webhookconfig.LabelPolicy(l.cell, &v1alpha1.PodSelector{MatchLabels: map[string]string{key: "a"}})
	l.create(policy)
	binding := webhookconfig.LabelBinding(l.cell)
	l.create(binding)
	t.Cleanup(func() {
		_ = l.client.Delete(context.Background(), binding)
		_ = l.client.Delete(context.Background(), policy)
	})
	with := l.pod("with", func(p *corev1.Pod) { p.Labels[key] = "a" })
	without := l.pod("without")
	change := func(pod *corev1.Pod, status bool, change func(map[string]string)) error {
		p := &corev1.Pod{}
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(pod), p); err != nil {
			t.Fatal(err)
		}
		change(p.Labels)
		if status {
			return l.client.Status().Update(t.Context(), p, &client.SubResourceUpdateOptions{
				UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
		}
		return l.client.Update(t.Context(), p, client.DryRunAll)
	}
	held := func(err error) string {
		if err == nil || !strings.Contains(err.Error(), "says which Breakwater cell a pod belongs to") {
			return fmt.Sprintf("want a refusal, got %v", err)
		}
		return ""
	}
	l.eventually(func() string { return held(change(with, false, func(labels map[string]string) { labels[key] = "b" })) })
	for claim, err := range map[string]error{
		"to take it off":             change(with, false, func(labels map[string]string) { delete(labels, key) }),
		"to put it on":               change(without, false, func(labels map[string]string) { labels[key] = "a" }),
		"to put on an empty one":     change(without, false, func(labels map[string]string) { labels[key] = "" }),
		"to change it by the status": change(with, true, func(labels map[string]string) { labels[key] = "b" }),
	} {
		if word := held(err); word != "" {
			t.Errorf("%s: %s", claim, word)
		}
	}
	for claim, err := range map[string]error{
		"another label":             change(with, false, func(labels map[string]string) { labels["tier"] = "a" }),
		"the status with no change": change(without, true, func(map[string]string) {}),
	} {
		if err != nil {
			t.Errorf("%s: %v", claim, err)
		}
	}
	stored := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(policy), stored); err != nil {
		t.Fatal(err)
	}
	if !webhookconfig.EnforcesLabels(l.cell, &v1alpha1.PodSelector{MatchLabels: map[string]string{key: "a"}}, stored, binding) {
		t.Errorf("HoldsLabels() = false for the stored policy %+v, want true", stored.Spec)
	}
}
