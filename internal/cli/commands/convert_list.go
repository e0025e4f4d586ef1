package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

// list reads the given kinds from the cluster.
func (f *convertFlags) list(ctx context.Context, kinds []convert.Kind) (sources []convert.Source, notes []string, err error) {
	config, err := f.from.Config(ctx, "convert")
	if err != nil {
		return nil, nil, err
	}
	namespace := f.from.NamespaceFlag()
	if namespace == "" && !f.allNamespaces {
		if namespace, err = f.from.Namespace(); err != nil {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("read namespace %s; -A reads all", namespace))
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	lister, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	for _, kind := range kinds {
		resource, served, err := resourceOf(ctx, discoverer, kind)
		if err != nil {
			return nil, nil, fmt.Errorf("discover %s in the cluster: %w", kind.Group, err)
		}
		if !served {
			notes = append(notes, fmt.Sprintf("the cluster has no %s.%s", kind.Resource, kind.Group))
			continue
		}
		if kind.ClusterScoped && namespace != "" && len(f.kinds) == 0 {
			notes = append(notes, fmt.Sprintf("%s.%s are cluster-scoped; -A or --kind %s reads them", kind.Resource, kind.Group, kind.Resource))
			continue
		}
		found, err := ListAll(ctx, inNamespace(lister.Resource(resource), kind, namespace))
		if err != nil {
			return nil, nil, fmt.Errorf("list %s.%s: %w", kind.Resource, kind.Group, err)
		}
		sources = append(sources, found...)
	}
	workloads, unread := readTargets(ctx, discoverer, lister, sources)
	return append(sources, workloads...), append(notes, unread...), nil
}

// inNamespace returns the client for a kind in a namespace; an empty namespace means all.
func inNamespace(resource dynamic.NamespaceableResourceInterface, kind convert.Kind, namespace string) dynamic.ResourceInterface {
	if kind.ClusterScoped {
		return resource
	}
	return resource.Namespace(namespace)
}

// readTargets reads the workloads that sources target, to find other objects that cover their pods. A failed read only adds a note.
func readTargets(ctx context.Context, discoverer discovery.DiscoveryInterfaceWithContext, lister dynamic.Interface, sources []convert.Source) (
	workloads []convert.Source, notes []string,
) {
	for _, source := range sources {
		target, ok := convert.TargetOf(source)
		if !ok {
			continue
		}
		object, err := readTarget(ctx, discoverer, lister, source.Object.GetNamespace(), target)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s %s/%s, which PodUnavailableBudget %s names, cannot be read, so that overlaps of its pods are unknown: %v",
				target.Kind, source.Object.GetNamespace(), target.Name, source.Object.GetName(), err))
			continue
		}
		workloads = append(workloads, convert.Source{Object: object})
	}
	return workloads, notes
}

func readTarget(ctx context.Context, discoverer discovery.DiscoveryInterfaceWithContext, lister dynamic.Interface, namespace string, ref v1alpha1.TargetRef) (
	*unstructured.Unstructured, error,
) {
	list, err := discoverer.ServerResourcesForGroupVersionWithContext(ctx, ref.APIVersion)
	if err != nil {
		return nil, err
	}
	for _, resource := range list.APIResources {
		if resource.Kind == ref.Kind && resource.Namespaced && !strings.Contains(resource.Name, "/") {
			gv, err := schema.ParseGroupVersion(ref.APIVersion)
			if err != nil {
				return nil, err
			}
			return lister.Resource(gv.WithResource(resource.Name)).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
	}
	return nil, fmt.Errorf("%s has no %s", ref.APIVersion, ref.Kind)
}

// resourceOf returns the first of a kind's versions that the cluster serves. They are ordered by how much they express.
func resourceOf(ctx context.Context, discoverer discovery.DiscoveryInterfaceWithContext, kind convert.Kind) (schema.GroupVersionResource, bool, error) {
	for _, version := range kind.Versions {
		resource := schema.GroupVersionResource{Group: kind.Group, Version: version, Resource: kind.Resource}
		list, err := discoverer.ServerResourcesForGroupVersionWithContext(ctx, resource.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return resource, false, err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource }) {
			return resource, true, nil
		}
	}
	return schema.GroupVersionResource{}, false, nil
}

// ListAll lists all objects of a kind in pages.
func ListAll(ctx context.Context, from dynamic.ResourceInterface) (sources []convert.Source, err error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return from.List(ctx, options)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		sources = append(sources, convert.Source{Object: item.(*unstructured.Unstructured)})
		return nil
	})
	return sources, err
}
