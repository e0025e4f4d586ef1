package status

import (
	"slices"
	"strconv"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Restored is the latest version of the core at which a cell has noticed that it had been restored; 0 is never.
func Restored(cells ...v1alpha1.Cell) (version uint64) {
	for i := range cells {
		if noticed, err := strconv.ParseUint(cells[i].Status.Aggregator.RestoredVersion, 10, 64); err == nil {
			version = max(version, noticed)
		}
	}
	return version
}

// Voided is a protector without counts that are worth nothing, since they were made before the core was restored at a version: itself
// if there are none such.
func Voided(p *v1alpha1.PodProtector, restored uint64) *v1alpha1.PodProtector {
	if !slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return quota.IsOfUntil(&c.Aggregation, restored) }) {
		return p
	}
	p = p.DeepCopy()
	quota.VoidUntil(p, restored)
	return p
}
