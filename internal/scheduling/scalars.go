package scheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// addSchedulerName sets the scheduler of a pod that has none. The API server sets the default scheduler before it calls webhooks, so
// the default counts as none, unless a previous policy has set it.
func (m *merging) addSchedulerName(wants string) {
	const field = "schedulerName"
	has := text(m.spec[field])
	unset := has == "" || has == corev1.DefaultSchedulerName && m.claims[field] == nil
	switch {
	case wants == "":
	case has == wants:
		if unset {
			m.claim(field)
		}
	case !unset:
		m.conflict(field, has, wants, ownValue)
	default:
		m.spec[field] = wants
		m.claim(field)
		m.injected(field)
	}
}

// addNodeSelector adds node labels key by key. A label that is incompatible with all terms of the required node affinity is a
// conflict, because it would leave the pod no node.
func (m *merging) addNodeSelector(wants map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		has, value, field := fields(m.spec["nodeSelector"]), wants[key], "nodeSelector["+key+"]"
		switch {
		case has[key] == value:
		case has[key] != nil:
			m.conflict(field, has[key], value, ownValue)
		case m.isDaemonPod():
			m.skip(field, nil, value, ofDaemonSet)
		case m.isPlaced():
			m.conflict(field, nil, value, isPlaced)
		case !m.leavesNode(key, value):
			m.conflict(field, m.requiredTerms(), value, "no required node affinity goes with it")
		default:
			m.child(m.spec, "nodeSelector")[key] = value
			m.claim(field)
			m.injected(field)
		}
	}
}

// leavesNode reports whether a node could still satisfy the required node affinity if it must have one more label.
func (m *merging) leavesNode(key string, value any) bool {
	if m.required() == nil {
		return true
	}
	selector := maps.Clone(fields(m.spec["nodeSelector"]))
	if selector == nil {
		selector = map[string]any{}
	}
	selector[key] = value
	return slices.ContainsFunc(m.requiredTerms(), func(term any) bool { return isFeasible(fields(term), selector) })
}

func (m *merging) isPlaced() bool { return text(m.spec["nodeName"]) != "" }

// addNodeName places a pod. The scheduler ignores a pod with a nodeName. The pod's requirements on the scheduler would then be void,
// or make the kubelet reject the pod.
func (m *merging) addNodeName(wants string) {
	const field = "nodeName"
	has := text(m.spec[field])
	switch {
	case wants == "" || has == wants:
	case has != "":
		m.conflict(field, has, wants, ownValue)
	case m.object.daemon:
		m.skip(field, nil, wants, "pods of a DaemonSet are placed by its controller")
	default:
		if value, why := m.asksScheduler(wants); why != "" {
			m.conflict(field, value, wants, why)
			return
		}
		m.spec[field] = wants
		m.claim(field)
		m.injected(field)
	}
}

// asksScheduler returns a requirement of the pod on the scheduler that cannot be guaranteed on a node of which only the name is
// known. why is empty if there is none.
func (m *merging) asksScheduler(node string) (value any, why string) {
	affinity := fields(m.spec["affinity"])
	if gates := items(m.spec["schedulingGates"]); len(gates) > 0 {
		return gates, "Kubernetes refuses a nodeName while there are schedulingGates"
	}
	if labels := fields(m.spec["nodeSelector"]); len(labels) > 0 {
		return labels, "the pod has a nodeSelector, and nodeName goes around the scheduler, who heeds it"
	}
	if m.required() != nil && !slices.ContainsFunc(m.requiredTerms(), func(term any) bool { return isNamed(fields(term), node) }) {
		return m.required(), "the pod has required node affinity, and nodeName goes around the scheduler, who heeds it"
	}
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		if terms := items(fields(affinity[kind])[required]); len(terms) > 0 {
			return terms, "the pod has required " + kind + ", and nodeName goes around the scheduler, who heeds it"
		}
	}
	for _, constraint := range items(m.spec["topologySpreadConstraints"]) {
		if fields(constraint)["whenUnsatisfiable"] == string(corev1.DoNotSchedule) {
			return constraint, "the pod has a topologySpreadConstraint, and nodeName goes around the scheduler, who heeds it"
		}
	}
	return nil, ""
}

// nodeName is the node field that terms can refer to.
const nodeName = "metadata.name"

// isNamed reports whether a node satisfies a term by its name alone.
func isNamed(term map[string]any, node string) bool {
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

// child returns the object in a field of an object that the merging owns. It creates the child if there is none.
func (m *merging) child(of map[string]any, field string) map[string]any {
	if has := fields(of[field]); has != nil {
		return has
	}
	made := map[string]any{}
	of[field] = made
	return made
}
