package aggregator

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Of a cell that a selector chooses, a pod can come and go while it lives, by its labels. Nobody should do that: see
// docs/topology.md. Whoever does makes budgets smaller, not larger:
//
//   - A pod that has left is not counted, and is not gone either: its reservation stays until a live read shows that the pod
//     has ended, or that its removal can no longer succeed.
//   - A pod that is seen to come is not counted as long as the term lasts: the cell that it came from may count it still.

// leave takes a pod out that may be alive.
func (s *Snapshot) leave(hash quota.UIDHash) { s.remove(hash) }

// outside stands in a streamed list for all pods that are not the cell's.
var outside = &pod{} //nolint:gochecknoglobals // a constant in all but the language's sense

// own lists only what is the cell's, and of a part of it.
func (s *Snapshot) own(
	list func(context.Context, metav1.ListOptions) (*corev1.PodList, error),
) func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	if s.scope.Everything() && s.part == nil {
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
