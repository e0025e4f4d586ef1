package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// ToRESTConfig implements resource.RESTClientGetter.
func (c core) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(c.Config), nil }

// ToDiscoveryClient provides categories and short names of types.
func (c core) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

// ToRESTMapper resolves the type of an argument, including short names.
func (c core) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := c.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// targets returns the objects that the arguments name, with the syntax of kubectl delete.
func (f *deleteFlags) targets(c core, arguments []string) (targets []*rootguard.Object, notes []string, err error) {
	if len(arguments) == 1 && !strings.Contains(arguments[0], "/") && f.selector == "" && !f.everything {
		return nil, nil, fmt.Errorf("%s: name objects, or set -l SELECTOR or --all", arguments[0])
	}
	namespace, err := f.clusters.Namespace()
	if err != nil {
		return nil, nil, err
	}
	infos, err := resource.NewBuilder(c).Unstructured().ContinueOnError().Flatten().RequestChunksOf(pageSize).
		NamespaceParam(namespace).DefaultNamespace().AllNamespaces(f.allNamespaces).LabelSelectorParam(f.selector).SelectAllParam(f.everything).
		ResourceTypeOrNameArgs(false, arguments...).Do().Infos()
	if err != nil {
		return nil, nil, c.resolveError(err, namespace)
	}
	pods := 0
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, nil, fmt.Errorf("%s is a %T, which cannot be read", info.ObjectName(), info.Object)
		}
		if info.Mapping.GroupVersionKind.GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
			pods++
			continue
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		target, err := rootguard.ReadObject(info.Mapping.GroupVersionKind.GroupKind(), info.Mapping.Resource.GroupResource(), raw)
		if err != nil {
			return nil, nil, err
		}
		targets = append(targets, target)
	}
	if pods > 0 {
		notes = append(notes, printable.Count(pods, "pod")+" left out: use simulate delete pods")
	}
	return targets, notes, nil
}

// resolveError describes which objects do not exist, or which types are supported.
func (c core) resolveError(err error, namespace string) error {
	var all []error
	for _, one := range flattenErrors(err) {
		switch status := apierrors.APIStatus(nil); {
		case meta.IsNoMatchError(one), strings.Contains(one.Error(), "doesn't have a resource type"):
			one = fmt.Errorf("%w. You can simulate deletions of namespaces, deployments, statefulsets, replicasets, replicationcontrollers, crds, podprotectors, "+
				"protectionpolicies, clusterprotectionpolicies, cells, pods, and of owners of workloads of any type that the core cluster serves "+
				"(kubectl api-resources)", one)
		case apierrors.IsNotFound(one) && errors.As(one, &status) && status.Status().Details != nil:
			one = c.notFound(status.Status().Details, namespace)
		default:
			one = c.withRemedy(one)
		}
		all = append(all, one)
	}
	return errors.Join(all...)
}

func flattenErrors(err error) []error {
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		return utilerrors.Flatten(several).Errors()
	}
	return []error{err}
}

// notFound returns an error that an object does not exist.
func (c core) notFound(of *metav1.StatusDetails, namespace string) error {
	kind, where := of.Kind, "the core cluster"
	if c.Name != "" {
		where = fmt.Sprintf("core %q", c.Name)
	}
	name := of.Name
	if known, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Group: of.Group, Resource: of.Kind}); err == nil {
		kind = known.Kind
		if mapping, err := c.RESTMapper().RESTMapping(known.GroupKind(), known.Version); err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			name = namespace + "/" + name
		}
	}
	return fmt.Errorf("%s %s does not exist in %s", kind, name, where)
}

func deletableTypes() []string {
	return []string{
		"cell", "clusterprotectionpolicy", "crd", "deployment", "namespace", "pod", "podprotector", "protectionpolicy", "replicaset", "replicationcontroller", "statefulset",
	}
}

// complete completes a type, and then the names of its objects in the core cluster.
func (f *deleteFlags) complete(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return deletableTypes(), cobra.ShellCompDirectiveNoFileComp
	}
	if _, ofPods, err := podArguments(args); ofPods || err != nil || strings.Contains(args[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeFrom(command, func(_ context.Context, c core) (names []string, err error) {
		namespace, err := f.clusters.Namespace()
		if err != nil {
			return nil, err
		}
		c.Config = rest.CopyConfig(c.Config)
		c.Config.Timeout = completionTimeout
		infos, err := resource.NewBuilder(c).Unstructured().NamespaceParam(namespace).DefaultNamespace().AllNamespaces(f.allNamespaces).
			SelectAllParam(true).ResourceTypeOrNameArgs(false, args[0]).Flatten().Do().Infos()
		for _, info := range infos {
			if !slices.Contains(args[1:], info.Name) {
				names = append(names, info.Name)
			}
		}
		return names, err
	})
}
