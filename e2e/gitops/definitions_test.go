package gitops_test

import (
	"context"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// installDefinitions installs the CRDs of Argo CD, cert-manager and External Secrets, from the modules of hack/tools.
func (s *Fixture) installDefinitions(ctx context.Context) error {
	for _, from := range []struct{ tool, module, pattern string }{
		{"cert-manager", "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml"},
		{"argo-cd", "github.com/argoproj/argo-cd/v3", "manifests/crds/*-crd.yaml"},
		{"external-secrets", "github.com/external-secrets/external-secrets", "config/crds/bases/external-secrets.io_externalsecrets.yaml"},
	} {
		folder, err := gitops.ModuleFolder(ctx, from.tool, from.module)
		if err != nil {
			return err
		}
		if err := s.InstallCRDs(ctx, filepath.Join(folder, from.pattern)); err != nil {
			return err
		}
	}
	return s.CreateNamespaces(ctx, "argocd", "cert-manager", systemNamespace)
}

// startCertManager starts cert-manager's controllers. They are not under test, so they run with all permissions.
func (s *Fixture) startCertManager(context.Context) error {
	path, err := local.BuiltProgram("cert-manager")
	if err != nil {
		return err
	}
	return s.StartProcess("cert-manager", path, nil, "--kubeconfig="+s.Cluster.Kubeconfig())
}

// buildKustomization returns the output of kubectl kustomize for a folder of clusters/.
func buildKustomization(ctx context.Context, folder string) ([]byte, []*unstructured.Unstructured, error) {
	raw, err := gitops.Output(ctx, nil, "kubectl", "kustomize", filepath.Join(root, "clusters", folder))
	if err != nil {
		return nil, nil, err
	}
	objects, err := gitops.Parse(raw)
	return raw, objects, err
}

// findObject returns the object of a kind and name that kustomize builds of a folder of clusters/.
func findObject(t *testing.T, folder, kind, name string) *unstructured.Unstructured {
	t.Helper()
	_, objects, err := buildKustomization(t.Context(), folder)
	noErrors(t, err)
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("clusters/%s has no %s %s", folder, kind, name)
	return nil
}
