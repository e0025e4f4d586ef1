package generator

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// discovery determines what the API server serves: the resource of a kind, whether it may be listed, and whether it is being deleted.
type discovery struct {
	mapper   meta.RESTMapper
	metadata metadata.Interface
	// namespace limits the kinds that are not built in to one namespace; empty means all.
	namespace string
	// watches have the version by which a policy or a protector names a kind.
	watches *kindWatches
}

// resourceOf returns the resource of a kind, in the version by which a policy or a protector names it.
func (d *discovery) resourceOf(kind schema.GroupKind) (schema.GroupVersionKind, schema.GroupVersionResource, error) {
	var versions []string
	if watched := d.watches.of(kind); watched != nil && watched.kind.Version != "" {
		versions = []string{watched.kind.Version}
	}
	mapping, err := d.mapper.RESTMapping(kind, versions...)
	if err != nil {
		return schema.GroupVersionKind{}, schema.GroupVersionResource{}, err
	}
	return mapping.GroupVersionKind, mapping.Resource, nil
}

// checkListable returns nil if objects of a resource may be listed.
func (d *discovery) checkListable(ctx context.Context, resource schema.GroupVersionResource) error {
	_, err := d.metadata.Resource(resource).Namespace(d.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// isKindDeleted reports whether the whole kind of a source is being deleted.
func (d *discovery) isKindDeleted(ctx context.Context, ref policy.Ref) (bool, error) {
	if isBuiltIn(ref) {
		return false, nil
	}
	_, resource, err := d.resourceOf(ref.GroupKind())
	if err != nil {
		return ignoreNotServed(err) == nil, ignoreNotServed(err)
	}
	return d.isResourceDeleted(ctx, resource)
}

// isResourceDeleted reports whether the CRD of a resource is being deleted, or no longer exists.
func (d *discovery) isResourceDeleted(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	definition, err := d.metadata.Resource(crdResource()).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// An aggregated API server has kinds without CRDs.
		err := d.checkListable(ctx, resource)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if err != nil {
		return false, fmt.Errorf("get the CustomResourceDefinition of %s: %w", resource.GroupResource(), err)
	}
	return definition.DeletionTimestamp != nil, nil
}

// ignoreNotServed returns nil if the error means that the API server does not serve the kind.
func ignoreNotServed(err error) error {
	var noResource *meta.NoResourceMatchError
	var noKind *meta.NoKindMatchError
	if errors.As(err, &noResource) || errors.As(err, &noKind) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func policyResource(p *policy.Policy) schema.GroupVersionResource {
	if p.Namespace == "" {
		return v1alpha1.GroupVersion.WithResource("clusterprotectionpolicies")
	}
	return v1alpha1.GroupVersion.WithResource("protectionpolicies")
}

func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}
