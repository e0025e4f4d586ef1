package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// The cluster that the tests share is core and cell in one. Its policies are more than an apiserver gives at once.
func TestExplainReadsWhatAClusterHas(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{Scheme: fleet.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace, kubeconfig := testplane.Namespace(t), writeKubeconfig(t, testplane.Config(t))
	text := strings.ReplaceAll(wanted(t, "testdata/explain/policies.yaml"), "namespace: shop", "namespace: "+namespace)
	for _, u := range documents(t, text) {
		if u.GetNamespace() == "" {
			u.SetName(namespace + "-" + u.GetName()) // others may have policies of the cluster
			t.Cleanup(func() {
				if err := c.Delete(context.WithoutCancel(t.Context()), u); err != nil {
					t.Errorf("delete %s: %v", u.GetName(), err)
				}
			})
		}
		if err := c.Create(t.Context(), u, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Fatal(err)
		}
	}
	const policies = 501
	for i := range policies {
		p := &v1alpha1.PodSchedulingPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("z-%d", i)},
			Spec:       v1alpha1.PodSchedulingPolicySpec{PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "other"}}},
		}
		if i == policies-1 { // the last one of the last page
			p.Name, p.Spec.PodSelector.MatchLabels["app"] = "zz-last", "web"
		}
		p.Spec.Tolerations = []v1alpha1.Toleration{{Key: "z", Operator: "Exists"}}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: " + namespace + ", labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}"
	wantPolicies := func(wants string, arguments ...string) {
		t.Helper()
		out, log, err := explain(t, pod, append([]string{"-f", "-", "--kubeconfig", kubeconfig}, arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); len(words) > 2 && words[0] != "conflict:" && strings.HasSuffix(words[1], "PodSchedulingPolicy") {
				got = append(got, strings.ReplaceAll(words[2], namespace, "shop"))
			}
		}
		if strings.Join(got, " ") != wants {
			t.Errorf("%v: policies %v, want %s\n%s%s", arguments, got, wants, out, log)
		}
		if !strings.Contains(out, `"labelSelector":{"matchLabels":{"app":"web"}}`) {
			t.Errorf("%v: the constraint does not go by the protector:\n%s", arguments, out)
		}
	}
	wantPolicies("shop/pool shop/zones shop/zz-last")
	wantPolicies("shop/pool shop/zones shop/zz-last shop-prod", "--namespace-labels", "env=prod")

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := c.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"env": "prod"}}}`))); err != nil {
		t.Fatal(err)
	}
	wantPolicies("shop/pool shop/zones shop/zz-last shop-prod", "--cell-kubeconfig", kubeconfig)

	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) > 0 {
		t.Errorf("%v, a dry run made %d pods", err, len(pods.Items))
	}
}

// Who may not read policies is told which ones and where.
func TestExplainTellsWhatMayNotBeRead(t *testing.T) {
	admin := testplane.Config(t)
	account := testplane.AsServiceAccount(t, admin, testplane.Namespace(t), "nobody", "")
	_, _, err := explain(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}", "-f", "-", "-n", "default",
		"--kubeconfig", writeKubeconfigOf(t, account))
	if err == nil || !strings.Contains(err.Error(), "list podschedulingpolicies in ") || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("error %v, want one that says what may not be read", err)
	}
}

func writeKubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testplane.KubeconfigOf(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
