package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// kubeconfigOf writes a configuration to a kubeconfig file and returns its path.
func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testplane.KubeconfigOf(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// configurationFor returns the configuration of a provider that points to a cluster.
func configurationFor(t *testing.T, config *rest.Config) string {
	t.Helper()
	return fmt.Sprintf("provider \"breakwater\" {\n  config_path = %q\n}\n", kubeconfigOf(t, config))
}

// unprivilegedUser returns a user of the control plane that has no permissions.
func unprivilegedUser(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	return testplane.AsServiceAccount(t, testplane.Config(t), namespace, "no-permissions", "")
}

// withoutCells returns a cluster that does not serve the kind Cell until the test ends.
func withoutCells(t *testing.T) *rest.Config {
	t.Helper()
	config := testplane.Second(t)
	crds := clientset.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	const name = "cells.breakwater.dev"
	crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testplane.Eventually(t, func() string {
		if _, err := crds.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the CRD is still there: %v", err)
		}
		return ""
	})
	t.Cleanup(func() {
		again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: crd.Spec}
		if _, err := crds.Create(context.Background(), again, metav1.CreateOptions{}); err != nil {
			t.Errorf("put the CRD back: %v", err)
		}
	})
	return config
}

// clusterRole creates a ClusterRole that exists until the test ends.
func clusterRole(t *testing.T, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	c, role := testplane.Client(t), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if err := c.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), role) })
	return name
}

// A client of the protocol may plan without having configured the provider.
func TestPlanOfProviderThatIsNotConfigured(t *testing.T) {
	server := provider.Server("test")()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s := &protocolClient{ProviderServer: server, t: t, schemas: schemas}
	schema := schemas.ResourceSchemas["breakwater_pod_protector"]
	selector := schema.ValueType().(tftypes.Object).AttributeTypes["selector"].(tftypes.Object)
	config := s.object(schema, values{
		"namespace": stringArgument("shop"), "name": stringArgument("web"), "min_available": stringArgument("1"),
		"selector": tftypes.NewValue(selector, map[string]tftypes.Value{
			"match_labels":      tftypes.NewValue(selector.AttributeTypes["match_labels"], map[string]tftypes.Value{}),
			"match_expressions": tftypes.NewValue(selector.AttributeTypes["match_expressions"], nil),
		}),
	})
	none, err := tfprotov6.NewDynamicValue(schema.ValueType(), tftypes.NewValue(schema.ValueType(), nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err := server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: "breakwater_pod_protector", Config: config, PriorState: &none, ProposedNewState: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			t.Errorf("PlanResourceChange() reports %s: %s, want no error", d.Summary, d.Detail)
		}
	}
}
