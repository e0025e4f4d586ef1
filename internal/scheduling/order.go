package scheduling

import (
	"cmp"
	"slices"
)

// Order puts policies into the order in which they are added to a pod: the higher priority first, then those of a namespace before those
// of the cluster, then by namespace, name and core cluster. Of one policy that is given several times the newest generation stays. No two
// policies are equal in this order, so that it does not depend on the one they come in.
func Order(policies []*Policy) []*Policy {
	newest := make(map[Ref]*Policy, len(policies))
	for _, p := range policies {
		if had := newest[p.Ref]; had == nil || had.Generation < p.Generation {
			newest[p.Ref] = p
		}
	}
	ordered := make([]*Policy, 0, len(newest))
	for _, p := range newest {
		ordered = append(ordered, p)
	}
	slices.SortFunc(ordered, before)
	return ordered
}

func before(a, b *Policy) int {
	return cmp.Or(
		cmp.Compare(b.Spec.Priority, a.Spec.Priority),
		cmp.Compare(reach(a), reach(b)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Core, b.Core),
	)
}

func reach(p *Policy) int {
	if p.Namespace == "" {
		return 1
	}
	return 0
}
