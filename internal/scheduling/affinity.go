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

func (m *merger) addAffinity(wants map[string]any) {
	nodes := fields(wants["nodeAffinity"])
	m.addRequiredNodes(items(fields(nodes[required])["nodeSelectorTerms"]))
	m.addTerms("nodeAffinity", preferred, items(nodes[preferred]))
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		pods := fields(wants[kind])
		m.addTerms(kind, required, items(pods[required]))
		m.addTerms(kind, preferred, items(pods[preferred]))
	}
}

// addRequiredNodes combines the pod's required node affinity with the policy's, so that nodes must satisfy both. It leaves the pod's
// own unchanged if the combination would leave the pod no node at all.
func (m *merger) addRequiredNodes(wants []any) {
	if len(wants) == 0 {
		return
	}
	labels := fields(m.spec["nodeSelector"])
	var p product
	if has := m.spec.requiredNodeSelector(); has == nil {
		p.terms = slices.DeleteFunc(slices.Clone(wants), func(term any) bool { return !isFeasible(fields(term), labels) })
		p.feasible = len(p.terms) > 0
	} else {
		p = multiply(m.spec.requiredTerms(), wants, labels)
	}
	conflict := func(reason string) { m.addConflict(requiredNodes, m.spec.requiredNodeSelector(), wants, reason) }
	switch {
	case p.unchanged:
	case m.isDaemonPod():
		m.addSkipped(requiredNodes, nil, wants, reasonDaemonSet)
	case m.spec.isNodeAssigned():
		conflict(reasonNodeAssigned)
	case p.tooMany:
		conflict(fmt.Sprintf("the combination would have more than %d terms", maxTerms))
	case !p.feasible:
		conflict("no node can satisfy both and the nodeSelector of the pod")
	default:
		nodes := ensureChild(ensureChild(m.spec, "affinity"), "nodeAffinity")
		ensureChild(nodes, required)["nodeSelectorTerms"] = p.terms
		m.recordInjected(requiredNodes)
	}
}

// addTerms adds terms that the pod does not have. Required terms do not apply to pods of a DaemonSet, whose controller chooses the
// node without considering them.
func (m *merger) addTerms(kind, strength string, wants []any) {
	field := "affinity." + kind + "." + strength
	for _, term := range wants {
		has := items(fields(fields(m.spec["affinity"])[kind])[strength])
		switch {
		case slices.ContainsFunc(has, func(had any) bool { return isEquivalent(had, term) }):
		case strength == required && m.object.daemon:
			m.addSkipped(field, nil, term, reasonDaemonSet)
		default:
			ensureChild(ensureChild(m.spec, "affinity"), kind)[strength] = slices.Concat(has, []any{term})
			m.recordInjected(field)
		}
	}
}
