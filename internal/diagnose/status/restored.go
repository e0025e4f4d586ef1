package status

import (
	"slices"
	"strconv"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// RestoredVersion returns the latest resource version of the core at which a cell detected a restore of the core; 0 means never.
func RestoredVersion(cells ...v1alpha1.Cell) (version uint64) {
	for i := range cells {
		if detected, err := strconv.ParseUint(cells[i].Status.Aggregator.RestoredVersion, 10, 64); err == nil {
			version = max(version, detected)
		}
	}
	return version
}

// WithoutCountsUntil returns a copy of a protector without the counts from before the core was restored at a version. It returns the protector
// itself if it has no such counts.
func WithoutCountsUntil(p *v1alpha1.PodProtector, restored uint64) *v1alpha1.PodProtector {
	if !slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return quota.BeganAtOrBefore(&c.Aggregation, restored) }) {
		return p
	}
	p = p.DeepCopy()
	quota.VoidCountsUntil(p, restored)
	return p
}
