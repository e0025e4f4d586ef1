package scheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// addSchedulerName sets the scheduler of a pod that has none. The API server sets the default scheduler before it calls webhooks, so
// the default counts as none, unless a previous policy has set it.
func (m *merger) addSchedulerName(wants string) {
	const field = "schedulerName"
	has := text(m.spec[field])
	unset := has == "" || has == corev1.DefaultSchedulerName && m.setBy[field] == nil
	switch {
	case wants == "":
	case has == wants:
		if unset {
			m.recordSetter(field)
		}
	case !unset:
		m.addConflict(field, has, wants, reasonOwnValue)
	default:
		m.spec[field] = wants
		m.recordSetter(field)
		m.recordInjected(field)
	}
}

// addNodeSelector adds node labels key by key. A label that is incompatible with all terms of the required node affinity is a
// conflict, because it would leave the pod no node.
func (m *merger) addNodeSelector(wants map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		has, value, field := fields(m.spec["nodeSelector"]), wants[key], "nodeSelector["+key+"]"
		switch {
		case has[key] == value:
		case has[key] != nil:
			m.addConflict(field, has[key], value, reasonOwnValue)
		case m.isDaemonPod():
			m.addSkipped(field, nil, value, reasonDaemonSet)
		case m.isNodeAssigned():
			m.addConflict(field, nil, value, reasonNodeAssigned)
		case !m.allowsNode(key, value):
			m.addConflict(field, m.requiredTerms(), value, "no term of the required node affinity is compatible with it")
		default:
			m.ensureChild(m.spec, "nodeSelector")[key] = value
			m.recordSetter(field)
			m.recordInjected(field)
		}
	}
}

// allowsNode reports whether a node could still satisfy the required node affinity if it must have one more label.
func (m *merger) allowsNode(key string, value any) bool {
	if m.requiredNodeSelector() == nil {
		return true
	}
	selector := maps.Clone(fields(m.spec["nodeSelector"]))
	if selector == nil {
		selector = map[string]any{}
	}
	selector[key] = value
	return slices.ContainsFunc(m.requiredTerms(), func(term any) bool { return isFeasible(fields(term), selector) })
}

func (m *merger) isNodeAssigned() bool { return text(m.spec["nodeName"]) != "" }

// addNodeName places a pod. The scheduler ignores a pod with a nodeName. The pod's requirements on the scheduler would then be void,
// or make the kubelet reject the pod.
func (m *merger) addNodeName(wants string) {
	const field = "nodeName"
	has := text(m.spec[field])
	switch {
	case wants == "" || has == wants:
	case has != "":
		m.addConflict(field, has, wants, reasonOwnValue)
	case m.object.daemon:
		m.addSkipped(field, nil, wants, "the DaemonSet controller chooses the nodes of its pods")
	default:
		if value, reason := m.schedulerRequirement(wants); reason != "" {
			m.addConflict(field, value, wants, reason)
			return
		}
		m.spec[field] = wants
		m.recordSetter(field)
		m.recordInjected(field)
	}
}

// schedulerRequirement returns a requirement of the pod on the scheduler that cannot be guaranteed on a node of which only the name is
// known. why is empty if there is none.
func (m *merger) schedulerRequirement(node string) (value any, reason string) {
	affinity := fields(m.spec["affinity"])
	if gates := items(m.spec["schedulingGates"]); len(gates) > 0 {
		return gates, "Kubernetes rejects nodeName while the pod has schedulingGates"
	}
	if labels := fields(m.spec["nodeSelector"]); len(labels) > 0 {
		return labels, "the pod has a nodeSelector, and nodeName bypasses the scheduler, which enforces it"
	}
	if m.requiredNodeSelector() != nil && !slices.ContainsFunc(m.requiredTerms(), func(term any) bool { return isSatisfiedByName(fields(term), node) }) {
		return m.requiredNodeSelector(), "the pod has required node affinity, and nodeName bypasses the scheduler, which enforces it"
	}
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		if terms := items(fields(affinity[kind])[required]); len(terms) > 0 {
			return terms, "the pod has required " + kind + ", and nodeName bypasses the scheduler, which enforces it"
		}
	}
	for _, constraint := range items(m.spec["topologySpreadConstraints"]) {
		if fields(constraint)["whenUnsatisfiable"] == string(corev1.DoNotSchedule) {
			return constraint, "the pod has a topologySpreadConstraint, and nodeName bypasses the scheduler, which enforces it"
		}
	}
	return nil, ""
}

// nodeName is the node field that terms can refer to.
const nodeName = "metadata.name"

// isSatisfiedByName reports whether a node satisfies a term by its name alone.
func isSatisfiedByName(term map[string]any, node string) bool {
	if len(items(term[expressions])) > 0 || len(items(term[fieldNames])) == 0 {
		return false
	}
	for _, each := range items(term[fieldNames]) {
		if fields(each)["key"] != nodeName {
			return false
		}
	}
	return areFeasible(items(term[fieldNames]), map[string]any{nodeName: node})
}

// ensureChild returns the object in a field of an object that the merging owns. It creates the child if there is none.
func (m *merger) ensureChild(parent map[string]any, field string) map[string]any {
	if has := fields(parent[field]); has != nil {
		return has
	}
	created := map[string]any{}
	parent[field] = created
	return created
}
