package generator

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// resourceOf returns the resource of a kind, in the version by which a policy or a protector names it.
func (k *Kinds) resourceOf(kind schema.GroupKind) (schema.GroupVersionKind, schema.GroupVersionResource, error) {
	var versions []string
	if watched := k.watches.of(kind); watched != nil && watched.kind.Version != "" {
		versions = []string{watched.kind.Version}
	}
	mapping, err := k.mappingOf(kind, versions...)
	if err != nil {
		return schema.GroupVersionKind{}, schema.GroupVersionResource{}, err
	}
	return mapping.GroupVersionKind, mapping.Resource, nil
}

// mappingOf returns the mapping of a kind to its resource. The mapper also knows each kind in lower case, by which a protector whose label a user
// edited would have another source than the workload.
func (k *Kinds) mappingOf(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := k.mapper.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	served, err := k.mapper.KindFor(mapping.Resource)
	if err != nil {
		return nil, err
	}
	if served.Kind != kind.Kind {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return mapping, nil
}

// checkListable returns nil if objects of a resource may be listed.
func (k *Kinds) checkListable(ctx context.Context, resource schema.GroupVersionResource) error {
	_, err := k.Metadata.Resource(resource).Namespace(k.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// isKindDeleted reports whether the whole kind of a source is being deleted.
func (k *Kinds) isKindDeleted(ctx context.Context, ref policy.Ref) (bool, error) {
	if isBuiltIn(ref) {
		return false, nil
	}
	_, resource, err := k.resourceOf(ref.GroupKind())
	if err != nil {
		return ignoreNotServed(err) == nil, ignoreNotServed(err)
	}
	return k.isResourceDeleted(ctx, resource)
}

// isResourceDeleted reports whether the CRD of a resource is being deleted, or no longer exists.
func (k *Kinds) isResourceDeleted(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	definition, err := k.Metadata.Resource(crdResource()).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// An aggregated API server has kinds without CRDs.
		err := k.checkListable(ctx, resource)
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
