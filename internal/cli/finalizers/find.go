// Package finalizers finds objects with finalizers of Breakwater in a cluster and removes those finalizers. It is for clusters in which
// the components that would do so no longer exist.
package finalizers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const finalizerPrefix = "breakwater.dev/"

// HeldObject is an object with finalizers of Breakwater.
type HeldObject struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	Object   metav1.PartialObjectMetadata
	// Finalizers are the finalizers of Breakwater.
	Finalizers []string
}

// Name returns a display name: Kind namespace/name.
func (h *HeldObject) Name() string {
	if h.Object.Namespace == "" {
		return h.Kind.Kind + " " + h.Object.Name
	}
	return h.Kind.Kind + " " + h.Object.Namespace + "/" + h.Object.Name
}

// IsDeleted reports whether the object was deleted and waits for its finalizers.
func (h *HeldObject) IsDeleted() bool { return h.Object.DeletionTimestamp != nil }

// Finder finds held objects.
type Finder struct {
	Metadata metadata.Interface
	Mapper   meta.RESTMapper
	// Events creates the records of releases. Only Release needs it.
	Events client.Writer
	// Namespace restricts the search to the objects of a namespace. Empty means all objects.
	Namespace string
	// Kinds are searched in addition to the well-known ones: the kinds of Breakwater, the workloads of Kubernetes, and the source kinds
	// of generated protectors.
	Kinds []schema.GroupVersionKind
}

// NewFinder returns a Finder for a namespace, or for all if it is empty, that can also release. It connects by an HTTP client of the configuration.
func NewFinder(config *rest.Config, connection *http.Client, namespace string) (*Finder, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, connection)
	if err != nil {
		return nil, err
	}
	events, err := client.New(config, client.Options{HTTPClient: connection, Mapper: mapper, Scheme: clusters.Scheme()})
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), connection)
	return &Finder{Metadata: objects, Mapper: mapper, Events: events, Namespace: namespace}, err
}

// Find returns all held objects, sorted by name. It ignores kinds that the cluster does not have.
func (f *Finder) Find(ctx context.Context) ([]HeldObject, error) {
	var holds []HeldObject
	kinds := append(wellKnownKinds(), f.Kinds...)
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
				holds = append(holds, HeldObject{Kind: kind, Resource: resource, Object: object, Finalizers: ours})
			}
		}
	}
	slices.SortStableFunc(holds, func(a, b HeldObject) int { return cmp.Compare(a.Name(), b.Name()) })
	return holds, nil
}

// wellKnownKinds returns the kinds that can have finalizers of Breakwater in every cluster.
func wellKnownKinds() []schema.GroupVersionKind {
	ours := v1alpha1.GroupVersion
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []schema.GroupVersionKind{
		ours.WithKind("PodProtector"), ours.WithKind("ProtectionPolicy"), ours.WithKind("ClusterProtectionPolicy"), ours.WithKind("Cell"),
		apps.WithKind("Deployment"), apps.WithKind("StatefulSet"), apps.WithKind("ReplicaSet"), {Version: "v1", Kind: "ReplicationController"},
	}
}

// sourceKind returns the kind of the source of a protector, or nil.
func sourceKind(kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata) []schema.GroupVersionKind {
	name, version := object.Labels[v1alpha1.LabelSourceKind], object.Annotations[v1alpha1.AnnotationSourceAPIVersion]
	if kind.Kind != "PodProtector" || name == "" || version == "" {
		return nil
	}
	return []schema.GroupVersionKind{schema.FromAPIVersionAndKind(version, name)}
}

func ownFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(finalizer string) bool { return !strings.HasPrefix(finalizer, finalizerPrefix) })
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
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return f.Metadata.Resource(mapping.Resource).Namespace(f.Namespace).List(ctx, options)
	})
	var objects []metav1.PartialObjectMetadata
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		objects = append(objects, *object.(*metav1.PartialObjectMetadata))
		return nil
	})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return objects, mapping.Resource, err
}
