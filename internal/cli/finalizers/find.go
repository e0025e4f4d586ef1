// Package finalizers finds what the finalizers of Breakwater hold in a cluster, and lets go of it: for the day when the
// components that would do so are not there any more.
package finalizers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// prefix is that of all our finalizers.
const prefix = "breakwater.dev/"

// pageSize bounds how many objects are read at once.
const pageSize = 500

// Hold is an object with finalizers of ours.
type Hold struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	Object   metav1.PartialObjectMetadata
	// Finalizers are ours.
	Finalizers []string
}

// Name is for people: Kind namespace/name.
func (h *Hold) Name() string {
	if h.Object.Namespace == "" {
		return h.Kind.Kind + " " + h.Object.Name
	}
	return h.Kind.Kind + " " + h.Object.Namespace + "/" + h.Object.Name
}

// Deleted tells that somebody has deleted the object, and it waits for its finalizers.
func (h *Hold) Deleted() bool { return h.Object.DeletionTimestamp != nil }

// Finder looks for holds.
type Finder struct {
	Metadata metadata.Interface
	Mapper   meta.RESTMapper
	// Namespace limits the search, and leaves out what has no namespace; empty is all.
	Namespace string
	// Kinds are looked for beside those that can be known: ours, Kubernetes' own workloads, and those that generated
	// protectors say they come from.
	Kinds []schema.GroupVersionKind
}

// Find returns all holds, in order of their names. Kinds that the cluster does not have hold nothing.
func (f *Finder) Find(ctx context.Context) ([]Hold, error) {
	var holds []Hold
	kinds := append(known(), f.Kinds...)
	seen := map[schema.GroupKind]bool{}
	for i := 0; i < len(kinds); i++ {
		kind := kinds[i]
		if seen[kind.GroupKind()] {
			continue
		}
		seen[kind.GroupKind()] = true
		objects, resource, err := f.list(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for _, object := range objects {
			kinds = append(kinds, sourceKind(kind, &object)...)
			if ours := ownFinalizers(object.Finalizers); len(ours) > 0 {
				holds = append(holds, Hold{Kind: kind, Resource: resource, Object: object, Finalizers: ours})
			}
		}
	}
	slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Name(), b.Name()) })
	return holds, nil
}

// known are the kinds that can have finalizers of ours in every cluster.
func known() []schema.GroupVersionKind {
	ours := v1alpha1.GroupVersion
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []schema.GroupVersionKind{
		ours.WithKind("PodProtector"), ours.WithKind("ProtectionPolicy"), ours.WithKind("ClusterProtectionPolicy"), ours.WithKind("Cell"),
		apps.WithKind("Deployment"), apps.WithKind("StatefulSet"), apps.WithKind("ReplicaSet"), {Version: "v1", Kind: "ReplicationController"},
	}
}

// sourceKind is the kind of the source of a protector.
func sourceKind(kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata) []schema.GroupVersionKind {
	name, version := object.Labels[v1alpha1.LabelSourceKind], object.Annotations[v1alpha1.AnnotationSourceAPIVersion]
	if kind.Kind != "PodProtector" || name == "" || version == "" {
		return nil
	}
	return []schema.GroupVersionKind{schema.FromAPIVersionAndKind(version, name)}
}

func ownFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(finalizer string) bool { return !strings.HasPrefix(finalizer, prefix) })
}

func (f *Finder) list(ctx context.Context, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, schema.GroupVersionResource, error) {
	mapping, err := f.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, schema.GroupVersionResource{}, nil
	}
	if err != nil {
		return nil, schema.GroupVersionResource{}, err
	}
	if f.Namespace != "" && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return nil, mapping.Resource, nil
	}
	var objects []metav1.PartialObjectMetadata
	for page, next := 0, ""; page == 0 || next != ""; page++ {
		list, err := f.Metadata.Resource(mapping.Resource).Namespace(f.Namespace).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsNotFound(err) {
			return nil, mapping.Resource, nil
		}
		if err != nil {
			return nil, mapping.Resource, err
		}
		objects, next = append(objects, list.Items...), list.Continue
	}
	return objects, mapping.Resource, nil
}
