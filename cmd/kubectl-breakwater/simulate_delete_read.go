package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// deletionReader reads the state that decides about deletions. It lists each kind in pages and does not read objects one by one.
type deletionReader struct {
	core
	targets []*rootguard.Object
	// namespace is the namespace of all targets; empty if there are several.
	namespace string
	world     *deletion.State
	// notes describe what could not be read and the resulting assumptions.
	notes []string
	// refs are owner references whose objects are still to be read.
	refs []metav1.OwnerReference
}

func newDeletionReader(c core, targets []*rootguard.Object, now time.Time) *deletionReader {
	return &deletionReader{core: c, targets: targets, namespace: commonNamespace(targets), world: &deletion.State{
		Now: now, Namespaces: map[string]*metav1.PartialObjectMetadata{}, Sources: map[policy.Ref]*metav1.PartialObjectMetadata{},
		Owners: map[types.UID]deletion.Owner{}, OwnerKinds: map[schema.GroupKind]deletion.KindAccess{},
	}}
}

func (r *deletionReader) addNote(format string, arguments ...any) {
	if text := fmt.Sprintf(format, arguments...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// ignoreForbidden adds a note for a forbidden optional read. It returns all other errors.
func (r *deletionReader) ignoreForbidden(err error, consequence string) error {
	if apierrors.IsForbidden(err) {
		r.addNote("%v; %s", err, consequence)
		return nil
	}
	return r.withRemedy(err)
}

func (r *deletionReader) read(ctx context.Context) (*deletion.State, error) {
	settings, err := r.readSettings(ctx)
	if err != nil {
		return nil, err
	}
	r.world.Limits, r.world.OptedIn = settings.limits, settings.optedIn
	if r.world.Protectors, err = readProtectors(ctx, r.core); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *componentSettings) error{r.readNamespaces, r.readSources, r.readOwners, r.readPolicies, r.readGrants, r.readGuard} {
		if err := step(ctx, settings); err != nil {
			return nil, err
		}
	}
	return r.world, nil
}

// metadata lists the metadata of all objects of a kind, only in r.namespace if that is set.
func (r *deletionReader) metadata(ctx context.Context, mapping *meta.RESTMapping, visit func(*metav1.PartialObjectMetadata)) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(mapping.GroupVersionKind.Kind + "List"))
	options := []client.ListOption{}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		options = append(options, client.InNamespace(r.namespace))
	}
	return listPages(ctx, r.core, list, func(l *metav1.PartialObjectMetadataList) {
		for i := range l.Items {
			visit(&l.Items[i])
		}
	}, options...)
}

func (r *deletionReader) readNamespaces(ctx context.Context, _ *componentSettings) error {
	const consequence = "the simulation ignores confirmations on namespaces, and whether namespaces are being deleted"
	mapping, err := r.RESTMapper().RESTMapping(schema.GroupKind{Kind: "Namespace"})
	if err != nil {
		return r.withRemedy(err)
	}
	if r.namespace == "" {
		return r.ignoreForbidden(r.metadata(ctx, mapping, func(n *metav1.PartialObjectMetadata) { r.world.Namespaces[n.Name] = n }), consequence)
	}
	one := &metav1.PartialObjectMetadata{}
	one.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := r.Get(ctx, keyOf("", r.namespace), one); err != nil {
		return r.ignoreForbidden(client.IgnoreNotFound(err), consequence)
	}
	r.world.Namespaces[one.Name] = one
	return nil
}

// readSources reads the workloads that the protectors were generated from.
func (r *deletionReader) readSources(ctx context.Context, _ *componentSettings) error {
	kinds := map[schema.GroupKind]bool{}
	for i := range r.world.Protectors {
		p := &r.world.Protectors[i]
		if r.namespace != "" && p.Namespace != r.namespace {
			continue
		}
		if ref, _, known := policy.SourceOf(p); known && policy.IsGenerated(p) {
			kinds[ref.GroupKind()] = true
		}
		r.refs = append(r.refs, p.OwnerReferences...)
	}
	for _, kind := range sortedKinds(kinds) {
		mapping, err := r.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err == nil {
			err = r.metadata(ctx, mapping, func(source *metav1.PartialObjectMetadata) {
				r.world.Sources[policy.RefOf(kind, source)] = source
				r.refs = append(r.refs, source.OwnerReferences...)
			})
		}
		if err != nil {
			return r.withRemedy(err)
		}
	}
	return nil
}

func sortedKinds(kinds map[schema.GroupKind]bool) []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) })
}

// maxOwnerDepth is the number of owner levels above a workload to read.
const maxOwnerDepth = 4

// readOwners reads the kinds of owners level by level.
func (r *deletionReader) readOwners(ctx context.Context, s *componentSettings) error {
	for range maxOwnerDepth {
		kinds := map[schema.GroupKind]bool{}
		versions := map[schema.GroupKind]string{}
		for _, ref := range r.refs {
			kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
			if _, known := r.world.OwnerKinds[kind.GroupKind()]; !known {
				kinds[kind.GroupKind()], versions[kind.GroupKind()] = true, kind.Version
			}
		}
		r.refs = nil
		for _, kind := range sortedKinds(kinds) {
			if err := r.readOwnerKind(ctx, s, kind, versions[kind]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *deletionReader) readOwnerKind(ctx context.Context, s *componentSettings, kind schema.GroupKind, version string) error {
	mapping, err := r.RESTMapper().RESTMapping(kind, version)
	if meta.IsNoMatchError(err) {
		r.world.OwnerKinds[kind] = deletion.Unserved
		return nil
	}
	if err != nil {
		return r.withRemedy(err)
	}
	r.world.OwnerKinds[kind] = deletion.Complete
	err = r.metadata(ctx, mapping, func(owner *metav1.PartialObjectMetadata) {
		r.world.Owners[owner.UID] = deletion.Owner{Kind: kind, PartialObjectMetadata: owner}
		r.refs = append(r.refs, owner.OwnerReferences...)
	})
	if apierrors.IsForbidden(err) {
		r.world.OwnerKinds[kind] = "" // unknown
	}
	if err := r.ignoreForbidden(err, "the simulation assumes that these owners exist"); err != nil {
		return err
	}
	return r.checkGenerator(ctx, s, kind, mapping.Resource.GroupResource())
}

// checkGenerator checks whether the generator may get owners of a kind. The generator treats owners that it may not get as deleted.
func (r *deletionReader) checkGenerator(ctx context.Context, s *componentSettings, kind schema.GroupKind, resource schema.GroupResource) error {
	if s.account == "" {
		return nil
	}
	client, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		return err
	}
	allowed, err := isAllowed(ctx, client, &doctor.Permission{Account: s.account, Verb: "get", Group: resource.Group, Resource: resource.Resource})
	if err == nil && !allowed {
		r.world.OwnerKinds[kind] = deletion.Forbidden
		r.addNote("the generator may not get %s, and treats every owner of that kind as deleted: grant it the permission", resource)
	}
	return r.ignoreForbidden(err, "the simulation assumes that the generator may get owners")
}

// readPolicies reads all policies if a target is a policy.
func (r *deletionReader) readPolicies(ctx context.Context, _ *componentSettings) error {
	if !slices.ContainsFunc(r.targets, func(o *rootguard.Object) bool {
		return o.Kind.Group == v1alpha1.GroupVersion.Group && (o.Kind.Kind == policy.NamespacedPolicy || o.Kind.Kind == policy.ClusterPolicy)
	}) {
		return nil
	}
	err := listPages(ctx, r.core, &v1alpha1.ProtectionPolicyList{}, func(l *v1alpha1.ProtectionPolicyList) {
		for i := range l.Items {
			r.world.Policies = append(r.world.Policies, policy.NewPolicy(&l.Items[i]))
		}
	})
	return errors.Join(err, listPages(ctx, r.core, &v1alpha1.ClusterProtectionPolicyList{}, func(l *v1alpha1.ClusterProtectionPolicyList) {
		for i := range l.Items {
			r.world.Policies = append(r.world.Policies, policy.NewPolicy(&l.Items[i]))
		}
	}))
}
