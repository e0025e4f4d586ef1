package scheduling

import (
	"cmp"
	"slices"
)

// Order sorts policies in the order in which they are added to a pod: higher priority first, then namespaced policies before cluster
// policies, then by namespace, name and core cluster. Of a policy that is given several times, it keeps the newest generation. The
// order is total, so that it does not depend on the order of the input.
func Order(policies []*Policy) []*Policy {
	newest := make(map[Ref]*Policy, len(policies))
	for _, p := range policies {
		if existing := newest[p.Ref]; existing == nil || existing.Generation < p.Generation {
			newest[p.Ref] = p
		}
	}
	ordered := make([]*Policy, 0, len(newest))
	for _, p := range newest {
		ordered = append(ordered, p)
	}
	slices.SortFunc(ordered, compare)
	return ordered
}

func compare(a, b *Policy) int {
	return cmp.Or(
		cmp.Compare(b.Spec.Priority, a.Spec.Priority),
		cmp.Compare(scopeRank(a), scopeRank(b)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Core, b.Core),
	)
}

func scopeRank(p *Policy) int {
	if p.Namespace == "" {
		return 1
	}
	return 0
}
