package generator

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// watchKind starts to watch a kind. If it returns no error, the kind is served and may be listed, though it may not have been listed yet.
func (k *Kinds) watchKind(ctx context.Context, kind schema.GroupVersionKind) error {
	if _, ok := builtInKind(kind.GroupKind()); ok {
		if !slices.Contains(k.Watched, kind) {
			return fmt.Errorf("the generator does not watch %s", kind.Kind)
		}
		return nil
	}
	if err := k.watches.watchAuxiliary(crdResource(), func(*metav1.PartialObjectMetadata) { k.watches.notifyChange(metav1.NamespaceAll) }); err != nil {
		return err
	}
	mapping, err := k.mappingOf(kind.GroupKind(), kind.Version)
	if err != nil {
		k.watches.stopUnserved(kind.GroupKind())
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return fmt.Errorf("%s is of cluster scope, and a PodProtector protects pods of one namespace: name the kind of its workloads", kind.Kind)
	}
	if err := k.checkListable(ctx, mapping.Resource); err != nil {
		if apierrors.IsNotFound(err) {
			k.watches.stopUnserved(kind.GroupKind())
		}
		return err
	}
	return k.watches.start(kind, mapping.Resource)
}

// ensureWatched watches the kind of a source whose protectors name it, even if no policy names it any more.
func (k *Kinds) ensureWatched(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) error {
	if isBuiltIn(ref) || len(protectors) == 0 {
		return nil
	}
	if k.watches.of(ref.GroupKind()) != nil {
		return nil
	}
	_, version, ok := policy.SourceOf(protectors[0])
	if !ok {
		kind, _, err := k.resourceOf(ref.GroupKind())
		if err != nil {
			return ignoreNotServed(err)
		}
		version = kind.Version
	}
	err := k.watchKind(ctx, ref.GroupKind().WithVersion(version))
	if ignoreNotServed(err) != nil {
		return fmt.Errorf("watch %s: %w", ref.Kind, err)
	}
	return nil
}

func (k *Kinds) watchedKinds() []v1alpha1.WorkloadKind {
	var kinds []v1alpha1.WorkloadKind
	for _, kind := range slices.Concat(k.Watched, k.watches.all()) {
		kinds = append(kinds, v1alpha1.WorkloadKind{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind})
	}
	return kinds
}
