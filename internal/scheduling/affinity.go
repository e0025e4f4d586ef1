package scheduling

import (
	"fmt"
	"slices"
)

// The two kinds of affinity, as Kubernetes spells them.
const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

const requiredNodes = "affinity.nodeAffinity." + required

func (m *merging) addAffinity(wants map[string]any) {
	nodes := fields(wants["nodeAffinity"])
	m.addRequiredNodes(items(fields(nodes[required])["nodeSelectorTerms"]))
	m.addTerms("nodeAffinity", preferred, items(nodes[preferred]))
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		pods := fields(wants[kind])
		m.addTerms(kind, required, items(pods[required]))
		m.addTerms(kind, preferred, items(pods[preferred]))
	}
}

// required returns the node selector of the pod's required node affinity. It is nil if the pod has none.
func (m *merging) required() map[string]any {
	return fields(fields(fields(m.spec["affinity"])["nodeAffinity"])[required])
}

func (m *merging) requiredTerms() []any { return items(m.required()["nodeSelectorTerms"]) }

// addRequiredNodes combines the pod's required node affinity with the policy's, so that nodes must satisfy both. It leaves the pod's
// own unchanged if the combination would leave the pod no node at all.
func (m *merging) addRequiredNodes(wants []any) {
	if len(wants) == 0 {
		return
	}
	labels := fields(m.spec["nodeSelector"])
	var p product
	if has := m.required(); has == nil {
		p.terms = slices.DeleteFunc(slices.Clone(wants), func(term any) bool { return !isFeasible(fields(term), labels) })
		p.feasible = len(p.terms) > 0
	} else {
		p = multiply(m.requiredTerms(), wants, labels)
	}
	conflict := func(why string) { m.conflict(requiredNodes, m.required(), wants, why) }
	switch {
	case p.unchanged:
	case m.isDaemonPod():
		m.skip(requiredNodes, nil, wants, ofDaemonSet)
	case m.isPlaced():
		conflict(isPlaced)
	case p.tooMany:
		conflict(fmt.Sprintf("together they would have more than %d terms", maxTerms))
	case !p.feasible:
		conflict("no node could meet both, and the pod's nodeSelector")
	default:
		nodes := m.child(m.child(m.spec, "affinity"), "nodeAffinity")
		m.child(nodes, required)["nodeSelectorTerms"] = p.terms
		m.injected(requiredNodes)
	}
}

// addTerms adds terms that the pod does not have. Required terms do not apply to pods of a DaemonSet, whose controller chooses the
// node without considering them.
func (m *merging) addTerms(kind, strength string, wants []any) {
	field := "affinity." + kind + "." + strength
	for _, term := range wants {
		has := items(fields(fields(m.spec["affinity"])[kind])[strength])
		switch {
		case slices.ContainsFunc(has, func(had any) bool { return isSame(had, term) }):
		case strength == required && m.object.daemon:
			m.skip(field, nil, term, ofDaemonSet)
		default:
			m.child(m.child(m.spec, "affinity"), kind)[strength] = slices.Concat(has, []any{term})
			m.injected(field)
		}
	}
}
