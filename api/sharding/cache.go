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

// restrictCache limits the cache to the shard's objects for some types, in addition to the selectors that the options already have.
func (s *Shard) restrictCache(options *cache.Options, scheme *runtime.Scheme, objects []client.Object) error {
	options.ByObject = maps.Clone(options.ByObject)
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	own, err := labels.ValidatedSelectorFromSet(labels.Set{v1alpha1.LabelShard(s.ring): s.name})
	if err != nil {
		return fmt.Errorf("select the objects of shard %s: %w", s.name, err)
	}
	done := map[schema.GroupVersionKind]bool{}
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return fmt.Errorf("objects of the shard: %w", err)
		}
		if done[kind] {
			continue
		}
		done[kind] = true
		key := entryOf(options, scheme, kind, object)
		entry, err := addSelector(options, options.ByObject[key], own)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		options.ByObject[key] = entry
	}
	return nil
}

// entryOf returns the key of a type in ByObject: another object of the same type if there is one, otherwise object.
func entryOf(options *cache.Options, scheme *runtime.Scheme, kind schema.GroupVersionKind, object client.Object) client.Object {
	for other := range options.ByObject {
		if of, err := apiutil.GVKForObject(other, scheme); err == nil && of == kind {
			return other
		}
	}
	return object
}

// addSelector adds the shard's selector to each selector that applies to a type after controller-runtime's defaulting.
func addSelector(options *cache.Options, entry cache.ByObject, own labels.Selector) (cache.ByObject, error) {
	entry.Namespaces = maps.Clone(entry.Namespaces)
	for name, namespace := range entry.Namespaces {
		namespace.LabelSelector = combineSelectors(own, namespace.LabelSelector, entry.Label, options.DefaultNamespaces[name].LabelSelector,
			options.DefaultLabelSelector)
		entry.Namespaces[name] = namespace
	}
	if entry.Namespaces == nil {
		for name, namespace := range options.DefaultNamespaces {
			if namespace.LabelSelector != nil {
				return entry, fmt.Errorf("the cache has a label selector for namespace %q, which would override the selector of the shard: set Namespaces in ByObject for this type", name)
			}
		}
	}
	entry.Label = combineSelectors(own, entry.Label, options.DefaultLabelSelector)
	return entry, nil
}

// combineSelectors returns a selector for objects that match own and the first of the others that is not nil.
func combineSelectors(own labels.Selector, others ...labels.Selector) labels.Selector {
	requirements, _ := own.Requirements()
	for _, other := range others {
		if other != nil {
			return other.Add(requirements...)
		}
	}
	return own
}
