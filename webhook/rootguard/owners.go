package rootguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

const (
	// maxOwnerDepth is how many levels of owners above a source are followed.
	maxOwnerDepth = 4
	// pageSize is how many objects one list request returns.
	pageSize = 500
	// lookupTTL is how long a result is reused for further reviews: the reviews of a mass deletion all need the same
	// one.
	lookupTTL = 2 * time.Second
)

// sourceOwners maps source workloads to their owners.
type sourceOwners map[policy.Ref][]rootguard.Owner

// ownerFinder finds the owners of source workloads in a core cluster. It reads metadata on demand: owners are rarely
// deleted, and a watch would hold the metadata of all workloads.
type ownerFinder struct {
	reader client.Reader
	mapper meta.RESTMapper
	// kinds are the resources that users configured.
	kinds []schema.GroupResource
	now   func() time.Time

	mu      sync.Mutex
	lookups map[string]*lookup
}

// lookup is one read, which concurrent reviews share.
type lookup struct {
	mu    sync.Mutex
	at    time.Time
	found sourceOwners
}

func newOwnerFinder(reader client.Reader, mapper meta.RESTMapper, kinds ...schema.GroupResource) *ownerFinder {
	return &ownerFinder{reader: reader, mapper: mapper, kinds: kinds, now: time.Now, lookups: map[string]*lookup{}}
}

// isOwnerKind reports whether objects of a resource may own sources.
func (o *ownerFinder) isOwnerKind(resource schema.GroupResource) bool {
	return slices.Contains(o.kinds, resource)
}

// ofSources returns the owners of the sources of some kinds in a namespace, or in all namespaces if it is empty. After an
// error the result lacks what could not be read.
func (o *ownerFinder) ofSources(ctx context.Context, namespace string, kinds map[schema.GroupKind]bool) (sourceOwners, error) {
	sorted := slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	l := o.lookupOf(fmt.Sprint(namespace, sorted))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found != nil && o.now().Sub(l.at) < lookupTTL {
		return l.found, nil
	}
	found, parents, failed := sourceOwners{}, map[types.UID][]metav1.OwnerReference{}, error(nil)
	for _, kind := range sorted {
		failed = errors.Join(failed, o.list(ctx, namespace, kind, func(source *metav1.PartialObjectMetadata) error {
			all, err := o.ancestorsOf(ctx, source, parents)
			found[policy.RefOf(kind, source)] = all
			return err
		}))
	}
	if failed == nil {
		l.at, l.found = o.now(), found
	}
	return found, failed
}

// lookupOf returns the lookup for a key. It also drops expired lookups, so that memory is bounded by the recent
// requests.
func (o *ownerFinder) lookupOf(key string) *lookup {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other, l := range o.lookups {
		if other != key && l.mu.TryLock() {
			if o.now().Sub(l.at) >= lookupTTL {
				delete(o.lookups, other)
			}
			l.mu.Unlock()
		}
	}
	if o.lookups[key] == nil {
		o.lookups[key] = &lookup{}
	}
	return o.lookups[key]
}

// list visits the objects of a kind that have owners.
func (o *ownerFinder) list(ctx context.Context, namespace string, kind schema.GroupKind, visit func(*metav1.PartialObjectMetadata) error) error {
	mapping, err := o.mapper.RESTMapping(kind)
	if err != nil {
		return fmt.Errorf("find %s: %w", kind, err)
	}
	page, failed := &metav1.PartialObjectMetadataList{}, error(nil)
	for {
		next := page.Continue
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := o.reader.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return errors.Join(failed, fmt.Errorf("list %s: %w", kind, err))
		}
		for i := range page.Items {
			if len(page.Items[i].OwnerReferences) > 0 {
				failed = errors.Join(failed, visit(&page.Items[i]))
			}
		}
		if page.Continue == "" {
			return failed
		}
	}
}

// ancestorsOf returns the owners of an object, their owners, and so on. It reads only owners of configured kinds; the owners
// of others stay unknown. parents caches the owners of each owner.
func (o *ownerFinder) ancestorsOf(
	ctx context.Context, object *metav1.PartialObjectMetadata, parents map[types.UID][]metav1.OwnerReference,
) ([]rootguard.Owner, error) {
	var all []rootguard.Owner
	var failed error
	seen, level := map[types.UID]bool{}, object.OwnerReferences
	for range maxOwnerDepth {
		var next []metav1.OwnerReference
		for _, ref := range level {
			if seen[ref.UID] {
				continue
			}
			seen[ref.UID] = true
			kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
			all = append(all, rootguard.Owner{Kind: kind.GroupKind(), UID: ref.UID})
			references, cached := parents[ref.UID]
			if !cached {
				var err error
				references, err = o.ownersOf(ctx, object.Namespace, kind, ref)
				failed, parents[ref.UID] = errors.Join(failed, err), references
			}
			next = append(next, references...)
		}
		level = next
	}
	return all, failed
}

// ownersOf reads the owners of an owner. It returns none if the owner is not of a configured kind, or no longer exists.
func (o *ownerFinder) ownersOf(
	ctx context.Context, namespace string, kind schema.GroupVersionKind, ref metav1.OwnerReference,
) ([]metav1.OwnerReference, error) {
	mapping, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil || !o.isOwnerKind(mapping.Resource.GroupResource()) {
		return nil, nil //nolint:nilerr // a kind that the cluster does not serve has no objects
	}
	owner, key := &metav1.PartialObjectMetadata{}, client.ObjectKey{Name: ref.Name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = namespace
	}
	owner.SetGroupVersionKind(kind)
	if err := o.reader.Get(ctx, key, owner); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key, err)
	}
	if owner.UID != ref.UID {
		return nil, nil
	}
	return owner.OwnerReferences, nil
}
