package aggregator

import "github.com/breakwater-k8s/breakwater/internal/core/quota"

// In a cell that a selector defines, a pod can enter and leave by a change of its labels while it lives. Users should not do
// that; see docs/concepts/topology.md. Such changes make budgets smaller, not larger:
//
//   - A pod that has left is not counted, but not recorded as removed either. Its reservation stays until a live read
//     shows that the pod has ended, or that its removal can no longer succeed (rule 4).
//   - A pod that is seen entering is not counted for the rest of the leadership: the cell that it came from may still count it.

// removeAlive removes a pod that may be alive.
func (s *podSet) removeAlive(hash quota.UIDHash) { s.remove(hash) }
