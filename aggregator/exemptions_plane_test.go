package aggregator_test

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// guardCell makes the API server call a webhook for the cell, in all namespaces that are not exempt. No API server calls it: nothing is removed.
func (l *fixture) guardCell() {
	l.Helper()
	l.createGuard(func(*admissionregistrationv1.ValidatingWebhook) {})
}

// createGuard creates a changed configuration of a webhook that does not answer.
func (l *fixture) createGuard(change func(*admissionregistrationv1.ValidatingWebhook)) {
	l.Helper()
	url, ignore, none := "https://127.0.0.1:1"+webhookconfig.RemovalPath(l.cell), admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone
	rule := admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/eviction", "pods/resize"}}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: l.cell},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "removals.breakwater.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, FailurePolicy: &ignore, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules:                   []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"DELETE", "CREATE", "UPDATE"}, Rule: rule}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{l.namespace}},
				{Key: v1alpha1.LabelExempt, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
			}},
		}},
	}
	change(&configuration.Webhooks[0])
	l.create(configuration)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), configuration) })
}

func (l *fixture) wantCondition(kind string, status metav1.ConditionStatus, reason string) {
	l.Helper()
	l.eventually(func() string {
		got := meta.FindStatusCondition(l.protector().Status.Conditions, kind)
		if got == nil || got.Status != status || got.Reason != reason {
			return fmt.Sprintf("condition %s = %+v, want %s %s", kind, got, status, reason)
		}
		return ""
	})
}

// With the permissions that the chart grants, the aggregator reports whether the namespace is guarded, and whether there are pods.
func TestProtectorReportsWhatIsNotProtected(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.runAs(l.coreUser(), testplane.User(l, l.namespace+"-cell", roles.Rules(l, "aggregator.cell")))
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt) // no webhook yet
	l.wantCondition(v1alpha1.ConditionPodsMatched, metav1.ConditionFalse, v1alpha1.ReasonNoPodMatches)
	l.createPod("web-0", true)
	l.guardCell()
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	l.eventually(func() string {
		if p := l.protector(); meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPodsMatched) != nil {
			return fmt.Sprintf("want no condition PodsMatched, status %+v", p.Status)
		}
		return ""
	})

	label := func(patch string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
		if err := l.client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	label(`{"metadata": {"labels": {"breakwater.dev/exempt": "true"}}}`)
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt)
	label(`{"metadata": {"labels": {"breakwater.dev/exempt": null}}}`) // the printed remedy
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
}
