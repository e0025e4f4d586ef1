package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func liveClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// documents parses YAML documents.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(u.Object) > 0 {
			all = append(all, u)
		}
	}
	return all
}

// deleteBudgets deletes the budgets at the end of the test, because other tests read all namespaces.
func deleteBudgets(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.DeleteAllOf(context.WithoutCancel(t.Context()), &policyv1.PodDisruptionBudget{}, client.InNamespace(namespace)); err != nil {
			t.Errorf("delete the budgets: %v", err)
		}
	})
}

func TestConvertReadsCluster(t *testing.T) {
	c, namespace, kubeconfig := liveClient(t), testplane.Namespace(t), writeKubeconfig(t, testplane.Config(t))

	out, log, err := runConvert(t, "", "--kubeconfig", kubeconfig, "-n", namespace)
	if err != nil || out != "" || !strings.Contains(log, "0 PodProtectors created from 0 objects") {
		t.Fatalf("in a namespace without budgets: %v, output %q\n%s", err, out, log)
	}

	deleteBudgets(t, c, namespace)
	text, err := os.ReadFile("testdata/convert/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range documents(t, string(text)) {
		u.SetNamespace(namespace)
		if err := c.Create(t.Context(), u, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile("testdata/convert/shop.want.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(string(raw), "NAMESPACE", namespace)
	for _, arguments := range [][]string{{"-n", namespace}, {"-A"}} {
		out, log, err = runConvert(t, "", append([]string{"--kubeconfig", kubeconfig}, arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("%v (-want +got):\n%s\n%s", arguments, diff, log)
		}
	}
	if !strings.Contains(log, "not converted: ProtectsNothing: PodDisruptionBudget "+namespace+"/unused: ") {
		t.Errorf("standard error does not report the budget that protects nothing:\n%s", log)
	}
	if want := "BothMustAdmit: PodDisruptionBudget " + namespace + "/web: it can cover the same pods as PodDisruptionBudget " + namespace + "/front: "; !strings.Contains(log, want) {
		t.Errorf("standard error does not contain %q:\n%s", want, log)
	}
	// Apply twice, as users do who convert again.
	for range 2 {
		for _, u := range documents(t, out) {
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test")); err != nil {
				t.Errorf("apply %s: %v", u.GetName(), err)
			}
		}
	}
	again, _, err := runConvert(t, "", "--kubeconfig", kubeconfig, "-A")
	if diff := cmp.Diff(out, again); diff != "" || err != nil {
		t.Errorf("conversion changed after its output was applied (-before +after): %v\n%s", err, diff)
	}
}

func TestConvertReadsNamespaceOfContext(t *testing.T) {
	out, log, err := runConvert(t, "", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)))
	if err != nil || out != "" || !strings.Contains(log, "read namespace default; -A reads all") {
		t.Errorf("%v, output %q\n%s", err, out, log)
	}
}

func TestConvertReadsAllPages(t *testing.T) {
	c, namespace := liveClient(t), testplane.Namespace(t)
	const budgets = 503 // the page size is 500
	deleteBudgets(t, c, namespace)
	for i := range budgets {
		pdb := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("app-%d", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(1)),
				Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}},
			},
		}
		if err := c.Create(t.Context(), pdb); err != nil {
			t.Fatal(err)
		}
	}
	out, log, err := runConvert(t, "", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "-n", namespace)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(documents(t, out)); n != budgets {
		t.Errorf("%d protectors from %d budgets", n, budgets)
	}
	if !strings.Contains(log, "and 500 more), each: ") {
		t.Errorf("equal warnings are not grouped:\n%.2000s", log)
	}
}
