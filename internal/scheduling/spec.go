package scheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// specFields is the spec of a pod as JSON.
type specFields map[string]any

// copySpec copies the parts of a spec that are modified. The contents of lists are shared, and never modified.
func copySpec(original map[string]any) specFields {
	spec := maps.Clone(original)
	copyField := func(parent map[string]any, field string) map[string]any {
		if has := fields(parent[field]); has != nil {
			parent[field] = maps.Clone(has)
		}
		return fields(parent[field])
	}
	copyField(spec, "nodeSelector")
	affinity := copyField(spec, "affinity")
	copyField(affinity, "podAffinity")
	copyField(affinity, "podAntiAffinity")
	copyField(copyField(affinity, "nodeAffinity"), required)
	return spec
}

// requiredNodeSelector returns the node selector of the pod's required node affinity. It is nil if the pod has none.
func (s specFields) requiredNodeSelector() map[string]any {
	return fields(fields(fields(s["affinity"])["nodeAffinity"])[required])
}

func (s specFields) requiredTerms() []any {
	return items(s.requiredNodeSelector()["nodeSelectorTerms"])
}

// allowsNode reports whether a node could still satisfy the required node affinity if it must have one more label.
func (s specFields) allowsNode(key string, value any) bool {
	if s.requiredNodeSelector() == nil {
		return true
	}
	selector := map[string]any{}
	maps.Copy(selector, fields(s["nodeSelector"]))
	selector[key] = value
	return slices.ContainsFunc(s.requiredTerms(), func(term any) bool { return isFeasible(fields(term), selector) })
}

func (s specFields) isNodeAssigned() bool { return text(s["nodeName"]) != "" }

// schedulerRequirement returns a requirement of the pod on the scheduler that cannot be guaranteed on a node of which only the name is
// known. The reason is empty if there is none.
func (s specFields) schedulerRequirement(node string) (value any, reason string) {
	affinity := fields(s["affinity"])
	if gates := items(s["schedulingGates"]); len(gates) > 0 {
		return gates, "Kubernetes rejects nodeName while the pod has schedulingGates"
	}
	if labels := fields(s["nodeSelector"]); len(labels) > 0 {
		return labels, "the pod has a nodeSelector, and nodeName bypasses the scheduler, which enforces it"
	}
	if s.requiredNodeSelector() != nil && !slices.ContainsFunc(s.requiredTerms(), func(term any) bool { return isSatisfiedByName(fields(term), node) }) {
		return s.requiredNodeSelector(), "the pod has required node affinity, and nodeName bypasses the scheduler, which enforces it"
	}
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		if terms := items(fields(affinity[kind])[required]); len(terms) > 0 {
			return terms, "the pod has required " + kind + ", and nodeName bypasses the scheduler, which enforces it"
		}
	}
	for _, constraint := range items(s["topologySpreadConstraints"]) {
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

// ensureChild returns the object in a field of an object that copySpec has copied. It creates the child if there is none.
func ensureChild(parent map[string]any, field string) map[string]any {
	if fields(parent[field]) == nil {
		parent[field] = map[string]any{}
	}
	return fields(parent[field])
}
