package examples_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// This file tests the claims of the guide "GitOps and Terraform together", in its order.

func TestFieldsOfOtherManagersStay(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		s.apply(`selector = { match_labels = {} }
  min_available = "3"
  labels = { team = "shop" }`)
		s.force(`
metadata: {labels: {tier: web}, annotations: {argocd.argoproj.io/tracking-id: shop}}
spec: {expectedReplicas: 50, operations: [Update], admissionHistory: {maxConcurrentLag: 5}}`)
		s.expect("nothing")
		s.apply(`selector = { match_labels = {} }
  min_available = "4"`)
		p := s.live()
		if p.Labels["tier"] != "web" || p.Annotations["argocd.argoproj.io/tracking-id"] != "shop" || *p.Spec.ExpectedReplicas != 50 ||
			len(p.Spec.Operations) != 4 || p.Spec.AdmissionHistory.MaxConcurrentLag != 5 {
			t.Errorf("an apply has taken what is of others: %+v", p)
		}
		if _, there := p.Labels["team"]; there || p.Spec.MinAvailable.IntValue() != 4 {
			t.Errorf("an apply has not done what was said: %+v", p)
		}
	})
}

// The guide "Drift checks".
func TestDriftCheck(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		const fields = "selector = { match_labels = {} }\n  min_available = \"3\""
		s.apply(fields)
		s.expect("nothing")
		connected := s.Variables
		s.Variables = []string{"KUBE_CONFIG_PATH=/no/such/file"}
		s.expect("fail", "no file /no/such/file exists, but KUBE_CONFIG_PATH names it", "unless require_cluster is false")
		s.Variables = append(s.Variables, "KUBE_REQUIRE_CLUSTER=false")
		s.expect("nothing", "Warning: Nothing was compared with the cluster")
		s.Variables = connected
		s.force("spec: {minAvailable: 2}")
		s.expect("change", `min_available = "2" -> "3"`)
	})
}

func TestEqualFieldsAreShared(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		s.apply(`selector = { match_labels = {} }
  min_available = "3"
  min_ready_seconds = 5`)
		if err := s.applyAs(flux, "spec: {minAvailable: 3, minReadySeconds: 5}"); err != nil {
			t.Errorf("what is said alike is in conflict: %v", err)
		}
		s.expect("nothing")
		s.configure(`selector = { match_labels = {} }
  min_available = "4"
  min_ready_seconds = 5`)
		s.expect("change", `The field manager "kustomize-controller" owns min_available`)
		s.wantApplyError(`The field manager "kustomize-controller" owns min_available`)
		if out := s.apply("selector = { match_labels = {} }\n  min_available = \"3\""); !strings.Contains(out, "min_ready_seconds of PodProtector") {
			t.Errorf("that a field stays which others set as well is not told:\n%s", out)
		}
		if s.live().Spec.MinReadySeconds != 5 {
			t.Error("a field of others is gone")
		}
	})
}

func TestForcedFieldsAreDrift(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		const said = "selector = { match_labels = {} }\n  min_available = \"3\""
		s.apply(said)
		if err := s.applyAs(flux, "spec: {minAvailable: 2}"); err == nil || !strings.Contains(err.Error(), `conflict with "breakwater-terraform": .spec.minAvailable`) {
			t.Errorf("apply without force: %v, want a conflict", err)
		}
		s.force("spec: {minAvailable: 2}")
		s.expect("change", `min_available = "2" -> "3"`, `The field manager "kustomize-controller" owns min_available`)
		s.wantApplyError("set force_conflicts = true to take it over")
		for range 2 { // the conflict repeats forever
			s.apply(said + "\n  force_conflicts = true")
			s.expect("nothing")
			s.force("spec: {minAvailable: 2}")
			s.expect("change", `min_available = "2" -> "3"`)
		}
		s.apply("selector = { match_labels = {} }\n  min_available = \"2\"")
		s.expect("nothing")
	})
}

// Terraform also owns the defaults that a resource sets for missing values.
func TestDefaultsAreOwned(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		s.apply("selector = { match_labels = {} }\n  min_available = \"3\"")
		s.force("spec: {criterion: Ready}")
		s.expect("change", `criterion = "Ready" -> "Available"`)
		s.apply("selector = { match_labels = {} }\n  min_available = \"3\"\n  criterion = \"Ready\"")
		s.expect("nothing")
	})
}

func TestIgnoredChangesStay(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		const ignoring = "\n  lifecycle {\n    ignore_changes = [min_available]\n  }"
		s.apply("selector = { match_labels = {} }\n  min_available = \"3\"" + ignoring)
		s.force("spec: {minAvailable: 2}")
		s.expect("nothing")
		s.apply("selector = { match_labels = {} }\n  min_available = \"3\"\n  min_ready_seconds = 5" + ignoring)
		if got := s.live().Spec; got.MinAvailable.IntValue() != 2 || got.MinReadySeconds != 5 {
			t.Errorf("it is now %+v", got)
		}
		if err := s.applyAs(flux, "spec: {minAvailable: 1}"); err == nil || !strings.Contains(err.Error(), "breakwater-terraform") {
			t.Errorf("Terraform holds what it applied: want a conflict with it, got %v", err)
		}
	})
}

func TestKubeconfigHasOneWriter(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		s := newShared(t, program)
		kubeconfig := testplane.KubeconfigOf(t, testplane.Config(t))
		secret := func(name, value string) *unstructured.Unstructured {
			object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString([]byte(value))}}}
			object.SetAPIVersion("v1")
			object.SetKind("Secret")
			object.SetNamespace("breakwater-system")
			object.SetName(name)
			return object
		}
		join := func(name string) error {
			return s.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(secret(name, "another")), client.FieldOwner("breakwater-join"))
		}
		cell := func(name, more string) string {
			return "variable \"kubeconfig\" {\n  type = string\n  ephemeral = true\n}\nresource \"breakwater_cell\" \"it\" {\n  name = \"" + name + "\"\n" +
				"  kubeconfig_secret_ref = { namespace = \"breakwater-system\", name = \"" + name + "\" }\n" + more + "\n}\n"
		}
		s.Variables = append(s.Variables, "TF_VAR_kubeconfig="+string(kubeconfig))
		if err := join("cell-joined"); err != nil {
			t.Fatal(err)
		}
		s.Write("cell.tf", cell("cell-joined", "kubeconfig_wo = var.kubeconfig"))
		s.wantApplyError("Secret breakwater-system/cell-joined: ", "breakwater-join")
		s.Write("cell.tf", cell("cell-joined", ""))
		s.Run("apply", "-auto-approve")
		// Values applied as stringData have no owner, so there is no conflict to report.
		unowned := secret("cell-stored", "")
		unowned.Object["stringData"], unowned.Object["data"] = map[string]any{"kubeconfig": "of a store"}, nil
		if err := s.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(unowned), client.FieldOwner(flux)); err != nil {
			t.Fatal(err)
		}
		s.Write("cell.tf", cell("cell-stored", "kubeconfig_wo = var.kubeconfig"))
		s.Run("apply", "-auto-approve")
		s.Write("cell.tf", cell("cell-written", "kubeconfig_wo = var.kubeconfig"))
		s.Run("apply", "-auto-approve")
		if err := join("cell-written"); err == nil || !strings.Contains(err.Error(), "breakwater-terraform") {
			t.Errorf("breakwater join would overwrite what Terraform wrote: %v", err)
		}
		s.Run("destroy", "-auto-approve")
		for name, want := range map[string]bool{"cell-joined": true, "cell-stored": true, "cell-written": false} {
			err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "breakwater-system", Name: name}, secret(name, ""))
			if (err == nil) != want {
				t.Errorf("Secret %s is there: %t, want %t", name, err == nil, want)
			}
		}
	})
}

// The generator owns a protector that it derived from a policy, and restores its fields by force.
func TestProtectorOfPolicyIsNotTaken(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := newShared(t, program)
		if err := s.applyAs("breakwater-generator", "spec: {selector: {matchLabels: {app: web}}, minAvailable: 3}", client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		s.configure("selector = { match_labels = { app = \"web\" } }\n  min_available = \"5\"")
		s.wantApplyError("already exists")
	})
}
