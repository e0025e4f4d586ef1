package gitops_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/federation/local"
)

// installDefinitions installs the kinds of Flux, Argo CD and cert-manager, from the modules that the tools are built from.
func (s *Stage) installDefinitions(ctx context.Context) error {
	certManager, err := moduleFolder(ctx, "cert-manager", "github.com/cert-manager/cert-manager")
	if err != nil {
		return err
	}
	argo, err := moduleFolder(ctx, "argo-cd", "github.com/argoproj/argo-cd/v3")
	if err != nil {
		return err
	}
	if err := s.makeFluxDefinitions(ctx); err != nil {
		return err
	}
	var installed []string
	for _, pattern := range []string{
		filepath.Join(certManager, "deploy", "crds", "*.yaml"), filepath.Join(argo, "manifests", "crds", "*-crd.yaml"), s.path("flux", "*.yaml"),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no definitions in %s: %w", pattern, err)
		}
		for _, file := range files {
			names, err := s.applyFile(ctx, file)
			if err != nil {
				return err
			}
			installed = append(installed, names...)
		}
	}
	for _, name := range installed {
		if err := await(ctx, name, func() string { return s.established(ctx, name) }); err != nil {
			return err
		}
	}
	for _, name := range []string{"argocd", "cert-manager", "flux-system", system} {
		if err := client.IgnoreAlreadyExists(s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
			return err
		}
	}
	return nil
}

// makeFluxDefinitions makes the definitions from Flux's types, as Flux does.
func (s *Stage) makeFluxDefinitions(ctx context.Context) error {
	generator, err := local.BuiltProgram("controller-gen")
	if err != nil {
		return err
	}
	_, err = inTool(ctx, "flux", generator, "crd", "paths=github.com/fluxcd/helm-controller/api/v2",
		"paths=github.com/fluxcd/kustomize-controller/api/v1", "paths=github.com/fluxcd/source-controller/api/v1", "output:crd:dir="+s.path("flux"))
	return err
}

func (s *Stage) applyFile(ctx context.Context, file string) (names []string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	return names, s.apply(ctx, objects)
}

func (s *Stage) established(ctx context.Context, name string) string {
	definition, err := s.read(ctx, definitions, "", name)
	if err != nil {
		return err.Error()
	}
	if got := condition(definition, "Established"); got.Status != metav1.ConditionTrue {
		return fmt.Sprintf("it is not established: %+v", got)
	}
	return ""
}

// kustomized is what a folder of clusters/ comes to.
func kustomized(ctx context.Context, folder string) ([]byte, []*unstructured.Unstructured, error) {
	raw, err := output(ctx, nil, "kubectl", "kustomize", filepath.Join(root, "clusters", folder))
	if err != nil {
		return nil, nil, err
	}
	objects, err := parse(raw)
	return raw, objects, err
}
