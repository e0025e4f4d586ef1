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
		case m.spec.isNodeAssigned():
			m.addConflict(field, nil, value, reasonNodeAssigned)
		case !m.spec.allowsNode(key, value):
			m.addConflict(field, m.spec.requiredTerms(), value, "no term of the required node affinity is compatible with it")
		default:
			ensureChild(m.spec, "nodeSelector")[key] = value
			m.recordSetter(field)
			m.recordInjected(field)
		}
	}
}

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
		if value, reason := m.spec.schedulerRequirement(wants); reason != "" {
			m.addConflict(field, value, wants, reason)
			return
		}
		m.spec[field] = wants
		m.recordSetter(field)
		m.recordInjected(field)
	}
}
