package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func liveClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(testplane.Config(t), client.Options{Scheme: scheme})
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

// installPeers installs the CRDs of the peers until the test ends.
func installPeers(t *testing.T, c client.Client) {
	t.Helper()
	crds, err := envtest.InstallCRDs(testplane.Config(t), envtest.CRDInstallOptions{
		Paths: []string{"testdata/convert/openkruise-crd.yaml", "testdata/convert/podseidon-crd.yaml", "testdata/convert/kupid-crd.yaml"}, ErrorIfPathMissing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, crd := range crds {
			if err := c.Delete(ctx, crd); err != nil {
				t.Errorf("delete the CRD %s: %v", crd.Name, err)
			}
			err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
				err := c.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			})
			if err != nil {
				t.Errorf("CRD %s was not deleted: %v", crd.Name, err)
			}
		}
	})
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
	if err != nil || out != "" {
		t.Fatalf("in a cluster without the other systems: %v, output %q", err, out)
	}
	for _, want := range []string{"no podunavailablebudgets.policy.kruise.io", "no podprotectors.podseidon.kubewharf.io", "no clusterpodschedulingpolicies.kupid.gardener.cloud", "0 PodProtectors created from 0 objects"} {
		if !strings.Contains(log, want) {
			t.Errorf("standard error does not contain %q:\n%s", want, log)
		}
	}

	installPeers(t, c)
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
	if strings.Contains(log, "cannot be read") || strings.Contains(log, "skipped") ||
		!strings.Contains(log, "BothMustAdmit: PodUnavailableBudget "+namespace+"/web: it can cover the same pods as PodDisruptionBudget "+namespace+"/web: ") {
		t.Errorf("standard error does not report that two budgets cover the workload's pods:\n%s", log)
	}
	// Apply twice, as users do who convert again.
	for range 2 {
		for _, u := range documents(t, out) {
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test")); err != nil {
				t.Errorf("apply %s: %v", u.GetName(), err)
			}
		}
	}
	if err := c.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	again, log, err := runConvert(t, "", "--kubeconfig", kubeconfig, "-A")
	if diff := cmp.Diff(out, again); diff != "" || err != nil {
		t.Errorf("conversion changed after its output was applied (-before +after): %v\n%s", err, diff)
	}
	if want := "note: Deployment " + namespace + "/web, which PodUnavailableBudget web names, cannot be read"; !strings.Contains(log, want) {
		t.Errorf("standard error does not contain %q:\n%s", want, log)
	}
}

func TestConvertReadsNamespaceOfContext(t *testing.T) {
	out, log, err := runConvert(t, "", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "--kind", "pdb")
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
	out, log, err := runConvert(t, "", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "-n", namespace, "--kind", "PodDisruptionBudget")
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

// Cluster-scoped policies are in no namespace. A user who reads one namespace may lack permission to read them.
func TestConvertReadsClusterScopedPolicies(t *testing.T) {
	c, namespace, kubeconfig := liveClient(t), testplane.Namespace(t), writeKubeconfig(t, testplane.Config(t))
	installPeers(t, c)
	for _, u := range documents(t, `{apiVersion: kupid.gardener.cloud/v1alpha1, kind: ClusterPodSchedulingPolicy, metadata: {name: etcd},
  spec: {podSelector: {matchLabels: {role: etcd}}, namespaceSelector: {}, tolerations: [{key: etcd, operator: Exists}]}}`) {
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	for claim, test := range map[string]struct {
		arguments []string
		want      int
		note      string
	}{
		"with all namespaces": {[]string{"-A"}, 1, "0 PodProtectors and 1 scheduling policy created from 1 object"},
		"on request":          {[]string{"-n", namespace, "--kind", "kupid"}, 1, "0 PodProtectors and 1 scheduling policy created from 1 object"},
		"not with a namespace": {[]string{"-n", namespace}, 0,
			"clusterpodschedulingpolicies.kupid.gardener.cloud are cluster-scoped; -A or --kind clusterpodschedulingpolicies reads them"},
		"not of other kinds": {[]string{"-A", "--kind", "pdb"}, 0, "0 PodProtectors created from 0 objects"},
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := runConvert(t, "", append([]string{"--kubeconfig", kubeconfig}, test.arguments...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := documents(t, out); len(got) != test.want || test.want > 0 && got[0].GetName() != "etcd" {
				t.Errorf("%d documents, want %d:\n%s", len(got), test.want, out)
			}
			if !strings.Contains(log, test.note) {
				t.Errorf("standard error does not contain %q:\n%s", test.note, log)
			}
		})
	}
}
