package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// carriedRecords are the annotations in which a recreated protector carries what later writes restore. If the process ends before those, it loses its
// memory of the lost protector.
var carriedRecords = []string{v1alpha1.AnnotationRestoredDecrease, v1alpha1.AnnotationRestoredOwners} //nolint:gochecknoglobals // a constant that Go cannot express

// carry records something of a lost protector in the metadata of the recreated one, as JSON, in place of an earlier record.
func carry[T any](recreated *v1alpha1.PodProtector, annotation string, all []T) error {
	delete(recreated.Annotations, annotation)
	if len(all) == 0 {
		return nil
	}
	record, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("record %s: %w", annotation, err)
	}
	recreated.Annotations[annotation] = string(record)
	return nil
}

// carriesRecords reports whether a protector has its status, but still carries records in its metadata.
func carriesRecords(p *v1alpha1.PodProtector) bool {
	return !quota.IsRestorePending(p) && slices.ContainsFunc(carriedRecords, func(annotation string) bool {
		_, carries := p.Annotations[annotation]
		return carries
	})
}

// dropCarriedRecords removes the records, and restores the owners: the API server takes them from no write of a status. Otherwise a restore from a backup
// without status would bring the records back. The patch fails if the protector has changed since it was read: a restore of the core may have reverted
// its status.
func (r *Reconciler) dropCarriedRecords(ctx context.Context, cached *v1alpha1.PodProtector) error {
	p := &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if p.UID != cached.UID || !carriesRecords(p) {
		return nil
	}
	removed := map[string]any{}
	for _, annotation := range carriedRecords {
		removed[annotation] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.UID, "resourceVersion": p.ResourceVersion, "annotations": removed, "managedFields": restoredOwners(p),
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name))
	if err != nil && !isOutdated(err) {
		return fmt.Errorf("remove the records of the lost PodProtector: %w", err)
	}
	return nil
}
