package aggregator

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// In a cell that a selector defines, a pod can enter and leave by a change of its labels while it lives. Users should not do
// that; see docs/concepts/topology.md. Such changes make budgets smaller, not larger:
//
//   - A pod that has left is not counted, but not recorded as removed either. Its reservation stays until a live read
//     shows that the pod has ended, or that its removal can no longer succeed.
//   - A pod that is seen entering is not counted for the rest of the leadership: the cell that it came from may still count it.

// removeAlive removes a pod that may be alive.
func (s *Snapshot) removeAlive(hash quota.UIDHash) { s.remove(hash) }

// outsidePod represents all pods of a streamed list that are not the cell's.
var outsidePod = &pod{} //nolint:gochecknoglobals // effectively a constant

// filterList wraps a list and returns only pods of the cell, and of the part that the snapshot keeps.
func (s *Snapshot) filterList(
	list func(context.Context, metav1.ListOptions) (*corev1.PodList, error),
) func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	if s.scope.HasAllPods() && s.slots == nil {
		return list
	}
	keeps := s.beginList()
	return func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		page, err := list(ctx, options)
		if err == nil {
			page.Items = slices.DeleteFunc(page.Items, func(p corev1.Pod) bool {
				return !keeps(p.Namespace) || !s.scope.Has(p.Namespace, p.Labels)
			})
		}
		return page, err
	}
}
