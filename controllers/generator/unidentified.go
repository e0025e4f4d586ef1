package generator

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// unidentified is the value of sourceIndex for generated protectors whose labels and annotations do not identify their source. They keep their floors,
// and by their names they stay with their sources: each is repaired, released, or recorded as one whose source vanished.
const unidentified = "unidentified"

// mapToSource maps a protector, generated or not, to its source, or to the source whose protector would have its name.
func (r *Reconciler) mapToSource(ctx context.Context, protector *v1alpha1.PodProtector) []policy.Ref {
	if ref, _, ok := policy.SourceOf(protector); ok {
		return []policy.Ref{ref}
	}
	if !policy.IsGenerated(protector) {
		return nil
	}
	kind, err := r.kinds.mapper.KindFor(policy.KindInName(protector).WithVersion(""))
	if err != nil {
		if ignoreNotServed(err) != nil {
			log.FromContext(ctx).Error(err, "Failed to find the kind of the source of a PodProtector", "protector", klog.KObj(protector))
		}
		return nil
	}
	return policy.SourcesByName(protector, kind.GroupKind())
}

// belongs reports whether a protector that was read from the API server is one of a source. That includes one that names a source of the same name and
// of a kind that does not exist, because a user changed the case of the kind.
func (k *Kinds) belongs(ctx context.Context, protector *v1alpha1.PodProtector, ref policy.Ref) (bool, error) {
	if policy.BelongsTo(protector, ref) {
		return true, nil
	}
	named, _, ok := policy.SourceOf(protector)
	if !ok || named.Name != ref.Name || !policy.IsGenerated(protector) || !policy.IsNamedFor(protector, ref) {
		return false, nil
	}
	other, err := k.getLive(ctx, named)
	if err != nil {
		return false, fmt.Errorf("get the %s from the API server: %w", named.Kind, err)
	}
	return other == nil, nil
}
