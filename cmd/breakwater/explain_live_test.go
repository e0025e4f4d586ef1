package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/webhook"
)

// The shared test cluster is both core and cell. It has more policies than fit on one page of a list.
func TestExplainReadsCluster(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace, kubeconfig := testplane.Namespace(t), writeKubeconfig(t, testplane.Config(t))
	text := strings.ReplaceAll(wanted(t, "testdata/explain/policies.yaml"), "namespace: shop", "namespace: "+namespace)
	for _, u := range documents(t, text) {
		if u.GetNamespace() == "" {
			u.SetName(namespace + "-" + u.GetName()) // other tests may have cluster-scoped policies
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
			t.Errorf("error %v, constraint does not use the protector:\n%s", arguments, out)
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
		t.Errorf("error %v, the dry run created %d pods", err, len(pods.Items))
	}
}

// The error names the policies that the user may not read, and the cluster.
func TestExplainForbiddenPolicies(t *testing.T) {
	admin := testplane.Config(t)
	account := testplane.AsServiceAccount(t, admin, testplane.Namespace(t), "no-permissions", "")
	_, _, err := explain(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}", "-f", "-", "-n", "default",
		"--kubeconfig", writeKubeconfigOf(t, account))
	if err == nil || !strings.Contains(err.Error(), "list podschedulingpolicies in ") || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("error %v, want one that names the forbidden policies", err)
	}
}

// The cell's cluster reports whether it calls the webhook, and for which namespaces.
func TestExplainReadsWebhooksOfCell(t *testing.T) {
	admin, namespace, kubeconfig := testplane.Client(t), testplane.Namespace(t), writeKubeconfig(t, testplane.Config(t))
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: " + namespace + ", labels: {app: web}}, spec: {}}"
	rules := writeFiles(t, map[string]string{"rules.yaml": strings.ReplaceAll(zones("web", ""), "namespace: shop", "namespace: "+namespace)})
	want := func(text, note string, more ...string) {
		t.Helper()
		out, log, err := explain(t, pod, append([]string{"-f", "-", "--policies", rules, "--cell", namespace, "--cell-kubeconfig", kubeconfig}, more...)...)
		if err != nil || !strings.Contains(out, text) {
			t.Errorf("error %v, output\n%s\nwant %q", err, out, text)
		}
		if strings.Contains(log, "only a webhook with --scheduling adds spreads") || !strings.Contains(log, note) || note == "" && strings.Contains(log, "calls no webhook") {
			t.Errorf("standard error %q, want %q", log, note)
		}
	}
	const spread = " spreads by zone: injects " + field
	const unasked = " calls no webhook for new pods of cell "
	want(spread, unasked)
	options := webhook.ConfigurationOptions{
		Name: namespace, Cell: namespace, Namespaces: []string{namespace}, TimeoutSeconds: 1, Endpoint: webhook.Endpoint{URL: "https://127.0.0.1:1"},
		ExemptNamespaces: webhook.DefaultExemptNamespaces(),
	}
	configuration, err := webhook.SchedulingConfiguration(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), configuration) })
	want(spread, "", "--exempt-namespaces", namespace) // the configuration takes precedence
	want(spread, unasked, "--cell", "another")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := admin.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"breakwater.dev/exempt": "true"}}}`))); err != nil {
		t.Fatal(err)
	}
	want("webhook not called: the MutatingWebhookConfiguration of the cell exempts namespace "+namespace, "")
}

// A pod belongs to the core clusters that have the Cell, and to all if none has it.
func TestExplainReadsAllCores(t *testing.T) {
	const both = "shared-by-cores"
	east, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	west, err := client.New(testplane.Second(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]client.Client{"east": east, "west": west} {
		for _, object := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: both}},
			&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: both, Name: name}, Spec: v1alpha1.PodProtectorSpec{
				Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(1),
				Spread: &v1alpha1.Spread{TopologyKey: name, Enforcement: v1alpha1.SpreadSchedule},
			}},
			&v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: both, Name: "p"}, Spec: v1alpha1.PodSchedulingPolicySpec{
				PodSelector: &v1alpha1.PodSelector{}, SchedulingCriteria: v1alpha1.SchedulingCriteria{NodeSelector: v1alpha1.NodeLabels{name: "x"}},
			}},
		} {
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: both}}
	if err := west.Create(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	kubeconfigs := []string{"--core", "west=" + writeKubeconfig(t, testplane.Second(t)), "--core", "east=" + writeKubeconfig(t, testplane.Config(t))}
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: web}}, spec: {}}"
	for claim, test := range map[string]struct {
		cell string
		want []string
	}{
		"of no cell":            {"", []string{"east", "west"}},
		"of a cell of one core": {both, []string{"west"}},
		"of a cell of no core":  {"another", []string{"east", "west"}},
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := explain(t, pod, append([]string{"-f", "-", "-n", both, "--cell", test.cell}, kubeconfigs...)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"east", "west"} {
				wanted := slices.Contains(test.want, name)
				for _, part := range []string{name + "/PodSchedulingPolicy " + both + "/p ", name + "/PodProtector " + both + "/" + name + " spreads by " + name + ": injects topologySpreadConstraints"} {
					if strings.Contains(out, part) != wanted {
						t.Errorf("output contains %q: %v, want %v\n%s%s", part, !wanted, wanted, out, log)
					}
				}
			}
		})
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
