package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// releaseRemovedParts releases the protectors of parts that a source no longer has: a user who removes a part does so on purpose. It returns errOutdated if
// the policy, which says where the parts are, or the source is no longer as the cache shows it. Built-in kinds have no parts.
func (p *protection) releaseRemovedParts(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, wanted []policy.Protector, choice policy.Choice,
) error {
	if isBuiltIn(ref) {
		return nil
	}
	for _, protector := range protectors {
		isWanted := slices.ContainsFunc(wanted, func(w policy.Protector) bool { return w.Object.Name == protector.Name })
		if isWanted || !policy.IsGenerated(protector) {
			continue
		}
		live, err := get(ctx, p.live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
		if err != nil {
			return err
		}
		if live == nil || live.UID != protector.UID {
			continue
		}
		source, err := p.kinds.getUnchanged(ctx, ref, source) // the cache may show a confirmation that was withdrawn
		if err != nil {
			return err
		}
		if source == nil {
			return errOutdated
		}
		if err := p.decreases.checkPolicy(ctx, ref, source, live, choice); err != nil {
			return err
		}
		cause := releaseCause{text: fmt.Sprintf("%s has no part %q any more", ref, live.Annotations[v1alpha1.AnnotationSourcePart])}
		if _, err := p.releaser.releaseProtectors(ctx, ref, source, []*v1alpha1.PodProtector{live}, cause); err != nil && !errors.Is(err, errProtectorVanished) {
			return err
		}
	}
	return nil
}

// listLiveProtectors reads all protectors of a source from the API server: the cache may not show one that was just created. The names of parts
// are unknown, so for sources with parts it lists the protectors of their kind, and reads those by their names that have lost the label of the kind.
func (r *releaser) listLiveProtectors(ctx context.Context, ref policy.Ref, cached []*v1alpha1.PodProtector) ([]*v1alpha1.PodProtector, error) {
	if isBuiltIn(ref) {
		key := client.ObjectKey{Namespace: ref.Namespace, Name: policy.ProtectorName(ref)}
		protector, err := get(ctx, r.live, key, &v1alpha1.PodProtector{})
		if err != nil || protector == nil {
			return nil, err
		}
		return []*v1alpha1.PodProtector{protector}, nil
	}
	var list v1alpha1.PodProtectorList
	err := r.live.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingLabels{v1alpha1.LabelSourceKind: ref.Kind})
	if err != nil {
		return nil, err
	}
	var protectors []*v1alpha1.PodProtector
	for i := range list.Items {
		if policy.BelongsTo(&list.Items[i], ref) {
			protectors = append(protectors, &list.Items[i])
		}
	}
	names := []string{policy.ProtectorName(ref)}
	for _, protector := range cached {
		names = append(names, protector.Name)
	}
	for _, name := range names {
		if findByName(protectors, name) != nil {
			continue
		}
		protector, err := get(ctx, r.live, client.ObjectKey{Namespace: ref.Namespace, Name: name}, &v1alpha1.PodProtector{})
		if err != nil {
			return nil, err
		}
		if protector == nil {
			continue
		}
		if belongs, err := r.kinds.belongs(ctx, protector, ref); err != nil {
			return nil, err
		} else if belongs {
			protectors = append(protectors, protector)
		}
	}
	return protectors, nil
}
