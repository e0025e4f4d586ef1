package scheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// addSchedulerName sets the scheduler of a pod that has none. The apiserver fills in the default one before anybody is asked, so that one
// counts as none; but not when a policy before has set just that.
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

// addNodeSelector adds labels of nodes key by key. One that no term of the required node affinity goes with would leave the pod no node.
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

// leavesNode tells whether some node could still meet the required node affinity if it has one more label.
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

// addNodeName places a pod. The scheduler is not asked about one that has a nodeName, so what the pod asks of it would be void, or make the
// kubelet refuse it.
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

// asksScheduler tells what a pod asks of the scheduler, and cannot be promised on a node of which nothing is known but its name.
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

// nodeName is the field of nodes that terms can name.
const nodeName = "metadata.name"

// isNamed tells whether a node meets a term for its name alone.
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

// child is the object in a field of another one, which is the merging's own; it is made when there is none.
func (m *merging) child(of map[string]any, field string) map[string]any {
	if has := fields(of[field]); has != nil {
		return has
	}
	made := map[string]any{}
	of[field] = made
	return made
}
