package sharding

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// restrictCache limits the cache to the shard's objects for some types. Label selectors of the options for these types, or for namespaces, would
// override that of the shard: they are an error.
func (s *Shard) restrictCache(options *cache.Options, scheme *runtime.Scheme, objects []client.Object) error {
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.LabelShard(s.ring): s.name})
	if options.DefaultLabelSelector != nil {
		requirements, _ := selector.Requirements()
		selector = options.DefaultLabelSelector.Add(requirements...)
	}
	entries := map[schema.GroupVersionKind]client.Object{}
	for object := range options.ByObject {
		if kind, err := apiutil.GVKForObject(object, scheme); err == nil {
			entries[kind] = object
		}
	}
	options.ByObject = maps.Clone(options.ByObject)
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	restricted := map[schema.GroupVersionKind]bool{}
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return fmt.Errorf("objects of the shard: %w", err)
		}
		if restricted[kind] {
			continue
		}
		restricted[kind] = true
		if other := entries[kind]; other != nil {
			object = other
		}
		entry := options.ByObject[object]
		namespaces := entry.Namespaces
		if namespaces == nil {
			namespaces = options.DefaultNamespaces
		}
		for name, namespace := range namespaces {
			if namespace.LabelSelector != nil {
				return fmt.Errorf("%s: the cache has a label selector for namespace %q, which would override the selector of the shard: remove it", kind, name)
			}
		}
		if entry.Label != nil {
			return fmt.Errorf("%s: the cache has a label selector for this type, which would override the selector of the shard: remove it", kind)
		}
		entry.Label = selector
		options.ByObject[object] = entry
	}
	return nil
}
