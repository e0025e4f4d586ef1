package aggregator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// protectOnly makes the API server call a webhook that does not answer, and deny what it cannot ask about, in scope Protected of two
// namespaces. Only a cell's aggregator may remove the label.
func (l *fixture) protectOnly(other, aggregatorUser string) {
	l.Helper()
	l.createGuard(func(w *admissionregistrationv1.ValidatingWebhook) {
		fail := admissionregistrationv1.Fail
		w.FailurePolicy = &fail
		w.NamespaceSelector.MatchExpressions[0].Values = []string{l.namespace, other}
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, webhookconfig.ProtectedRequirement())
	})
	for _, object := range []client.Object{webhookconfig.ProtectedPolicy(l.cell, []string{aggregatorUser}), webhookconfig.ProtectedBinding(l.cell)} {
		l.create(object)
		l.Cleanup(func() { _ = l.client.Delete(context.Background(), object) })
	}
}

func (l *fixture) storedNamespace() *corev1.Namespace {
	l.Helper()
	namespace := &corev1.Namespace{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Name: l.namespace}, namespace); err != nil {
		l.Fatal(err)
	}
	return namespace
}

// wantLabel waits until the namespace has the label, or does not have it.
func (l *fixture) wantLabel(want bool) {
	l.Helper()
	l.eventually(func() string {
		n := l.storedNamespace()
		if got := n.Labels[v1alpha1.LabelProtected] == "true"; got != want {
			return fmt.Sprintf("labels %v, annotations %v, want the label: %v", n.Labels, n.Annotations, want)
		}
		return ""
	})
}

// patchNamespace patches the metadata of the namespace as a user; empty is the administrator.
func (l *fixture) patchNamespace(user, metadata string, options ...client.PatchOption) error {
	l.Helper()
	config := testplane.Config(l)
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{Scheme: l.scheme})
	if err != nil {
		l.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":`+metadata+`}`))
	return c.Patch(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}, patch, options...)
}

// wantDenied waits until a dry run of a patch of the namespace is denied, with a message.
func (l *fixture) wantDenied(user, metadata, message string) {
	l.Helper()
	l.eventually(func() string {
		if err := l.patchNamespace(user, metadata, client.DryRunAll); err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Sprintf("patch of %s by %q: error %v, want %q", metadata, user, err, message)
		}
		return ""
	})
}

func (l *fixture) wantRemovals(namespace string, denied bool) {
	l.Helper()
	l.eventually(func() string {
		err := l.client.Delete(l.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-0"}}, client.DryRunAll)
		if got := err != nil && strings.Contains(err.Error(), "failed calling webhook"); got != denied || err != nil && !denied {
			return fmt.Sprintf("deletion in namespace %s: error %v, want denied: %v", namespace, err, denied)
		}
		return ""
	})
}

// recreateNamespace replaces the namespace by one without labels. No controller removes its content: its protector stays.
func (l *fixture) recreateNamespace() {
	l.Helper()
	if err := l.client.Delete(l.Context(), l.storedNamespace()); err != nil {
		l.Fatal(err)
	}
	namespaces := kubernetes.NewForConfigOrDie(testplane.Config(l)).CoreV1().Namespaces()
	l.eventually(func() string {
		terminating := l.storedNamespace()
		terminating.Spec.Finalizers = nil
		if _, err := namespaces.Finalize(l.Context(), terminating, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	l.eventually(func() string {
		if err := l.client.Create(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// With the permissions that the chart grants: while no webhook answers, only removals in namespaces with protectors are denied.
func TestOnlyNamespacesWithProtectorsNeedTheWebhook(t *testing.T) {
	l := newFixture(t)
	other, user := testplane.Namespace(t), l.namespace+"-cell"
	l.protectOnly(other, user)
	l.createPod("web-0", true)
	unprotected := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "web-0"}}
	unprotected.Spec = corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web"}}}
	l.create(unprotected)
	l.wantRemovals(l.namespace, false)
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.runAs(l.coreUser(), testplane.User(l, user, roles.Rules(l, "aggregator.cell")))

	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt)
	if ready := meta.FindStatusCondition(l.protector().Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status == metav1.ConditionTrue {
		t.Errorf("condition Ready = %+v before the label is settled, want not True", ready)
	}
	if cell := quota.CellOf(l.protector(), l.cell); cell == nil || cell.Aggregation.Exempt != v1alpha1.ExemptNotLabeled {
		t.Errorf("cell = %+v, want exempt because of %s", cell, v1alpha1.ExemptNotLabeled)
	}
	l.wantLabel(true)
	l.wantRemovals(l.namespace, true)
	l.wantRemovals(other, false)
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	if err := l.client.Delete(t.Context(), unprotected); err != nil {
		t.Errorf("delete a pod of a namespace without protectors: %v", err)
	}
	if err := l.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "web-0"}}); err == nil {
		t.Error("the pod of a protector was deleted without a review")
	}
}

func TestLabelStaysWhileAProtectorExists(t *testing.T) {
	l := newFixture(t)
	other, user := testplane.Namespace(t), l.namespace+"-cell"
	l.protectOnly(other, user)
	l.createCell()
	protector := l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.runAs(l.coreUser(), testplane.User(l, user, roles.Rules(l, "aggregator.cell")))
	l.wantLabel(true)
	const kept = "In an emergency, label the namespace breakwater.dev/exempt=true"
	for _, metadata := range []string{
		`{"labels":{"breakwater.dev/protected":null}}`, `{"labels":{"breakwater.dev/protected":"false"}}`,
		`{"annotations":{"breakwater.dev/protected-by":null}}`, `{"annotations":{"breakwater.dev/protected-by":"a"}}`,
	} {
		l.wantDenied("", metadata, kept)
	}
	l.wantDenied(user, `{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}`, "aggregator may change only the label")
	for _, metadata := range []string{`{"labels":{"team":"a"}}`, `{"labels":{"breakwater.dev/exempt":"true"}}`, `{"labels":{"breakwater.dev/exempt":null}}`} {
		if err := l.patchNamespace("", metadata); err != nil {
			t.Errorf("patch of %s: %v", metadata, err)
		}
	}

	before := l.storedNamespace().UID
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	l.recreateNamespace()
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt)
	l.wantLabel(true)
	l.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	if after := l.storedNamespace().UID; after == before {
		t.Errorf("namespace has UID %s, want another after it was recreated", after)
	}

	if err := l.client.Delete(t.Context(), protector); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	l.wantLabel(false)
	if annotation, has := l.storedNamespace().Annotations[v1alpha1.AnnotationProtectedBy]; has {
		t.Errorf("annotation %s = %q, want none", v1alpha1.AnnotationProtectedBy, annotation)
	}
}

// Another core needs the label, too, and a user may not pretend that it does not.
func TestLabelStaysForAnotherCore(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.eventually(func() string { // the API server may still enforce the policy of an earlier test
		if err := l.patchNamespace("", `{"labels":{"breakwater.dev/protected":"true"},"annotations":{"breakwater.dev/protected-by":"another"}}`); err != nil {
			return err.Error()
		}
		return ""
	})
	protector := l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.runAs(l.coreUser(), testplane.User(l, l.namespace+"-cell", roles.Rules(l, "aggregator.cell")))
	wantCores := func(number int) {
		t.Helper()
		l.eventually(func() string {
			n := l.storedNamespace()
			by := webhookconfig.ParseProtectedBy(n.Annotations[v1alpha1.AnnotationProtectedBy])
			if len(by) != number || !by["another"] || n.Labels[v1alpha1.LabelProtected] != "true" {
				return fmt.Sprintf("labels %v, cores %s, want the label and %d cores", n.Labels, by, number)
			}
			return ""
		})
	}
	wantCores(2)
	if err := l.client.Delete(t.Context(), protector); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	wantCores(1) // the write that removes the item of this core decides about the label, too
}
