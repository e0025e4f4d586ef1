package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	applicationv1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// manager is the field manager that Argo CD applies as.
const manager = "argocd-controller"

// difference is Argo CD's verdict: OutOfSync if there is one.
type difference struct {
	Modified bool            `json:"modified"`
	Live     json.RawMessage `json:"live,omitempty"`
	Wanted   json.RawMessage `json:"wanted,omitempty"`
}

// differ compares as an Application with the compare option ServerSideDiff=true, with all that admission changes.
func differ(
	ctx context.Context, object *unstructured.Unstructured, overrides map[string]applicationv1alpha1.ResourceOverride, application, kubeconfig string,
) (*difference, error) {
	ignored, err := readIgnored(application)
	if err != nil {
		return nil, err
	}
	normalizer, err := normalizers.NewIgnoreNormalizer(ignored, overrides, normalizers.IgnoreNormalizerOpts{})
	if err != nil {
		return nil, fmt.Errorf("read what is ignored: %w", err)
	}
	resource, err := resourceOf(object, kubeconfig)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &difference{Modified: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get what is there: %w", err)
	}
	result, err := diff.Diff(ctx, object, live, diff.WithNormalizer(normalizer), diff.WithManager(manager),
		diff.WithServerSideDiff(true), diff.WithIgnoreMutationWebhook(false), diff.WithServerSideDryRunner(dryRunner{resource}))
	if err != nil {
		return nil, err
	}
	return &difference{Modified: result.Modified, Live: result.NormalizedLive, Wanted: result.PredictedLive}, nil
}

func readIgnored(file string) ([]applicationv1alpha1.ResourceIgnoreDifferences, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the Application: %w", err)
	}
	var application applicationv1alpha1.Application
	if err := yaml.UnmarshalStrict(raw, &application); err != nil {
		return nil, fmt.Errorf("read the Application %s: %w", file, err)
	}
	return application.Spec.IgnoreDifferences, nil
}

// resourceOf gives access to the kind and namespace of an object.
func resourceOf(object *unstructured.Unstructured, kubeconfig string) (dynamic.ResourceInterface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	kind := object.GroupVersionKind()
	mapping, err := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found)).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return objects.Resource(mapping.Resource), nil
	}
	return objects.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// dryRunner asks the apiserver what an apply would make of an object.
type dryRunner struct{ dynamic.ResourceInterface }

// Run implements diff.ServerSideDryRunner.
func (d dryRunner) Run(ctx context.Context, object *unstructured.Unstructured, as string) (string, error) {
	applied, err := d.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: as, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", err
	}
	raw, err := applied.MarshalJSON()
	return string(raw), err
}
