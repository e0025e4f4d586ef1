package scheduling

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// addTolerations adds tolerations that the pod does not have. A toleration of the same taint with other tolerationSeconds is a
// conflict.
func (m *merger) addTolerations(wants []any) {
	for _, item := range wants {
		toleration := fields(item)
		key, seconds, has := taintOf(toleration), toleration["tolerationSeconds"], items(m.spec["tolerations"])
		matchesTaint := func(had any) bool { return taintOf(fields(had)) == key }
		index := slices.IndexFunc(has, matchesTaint)
		switch {
		case index < 0:
			m.spec["tolerations"] = slices.Concat(has, []any{item})
			m.recordSetter(key.String())
			m.recordInjected("tolerations")
		case !slices.ContainsFunc(has, func(had any) bool { return matchesTaint(had) && fields(had)["tolerationSeconds"] == seconds }):
			m.addConflict(key.String(), fields(has[index])["tolerationSeconds"], seconds, reasonOwnValue)
		}
	}
}

// taint identifies the taints that a toleration tolerates.
type taint struct{ key, operator, value, effect string }

func taintOf(t map[string]any) taint {
	operator := cmp.Or(text(t["operator"]), string(corev1.TolerationOpEqual))
	return taint{text(t["key"]), operator, text(t["value"]), text(t["effect"])}
}

// String returns the name of the field, for messages and for setBy.
func (t taint) String() string {
	return "tolerations[" + t.key + "," + t.operator + "," + t.value + "," + t.effect + "].tolerationSeconds"
}

// addConstraints adds topology spread constraints, unless the pod has one with the same topologyKey and whenUnsatisfiable.
func (m *merger) addConstraints(policy *Policy, wants []any) {
	for _, item := range wants {
		constraint := maps.Clone(fields(item))
		if reason := m.fillSelector(policy, constraint); reason != "" {
			m.addSkipped(constraintField(constraint), nil, item, reason)
			continue
		}
		m.addConstraint(constraint)
	}
}

func (m *merger) addConstraint(constraint map[string]any) {
	key, kind := constraint["topologyKey"], constraint["whenUnsatisfiable"]
	field, has := constraintField(constraint), items(m.spec["topologySpreadConstraints"])
	index := slices.IndexFunc(has, func(had any) bool {
		return fields(had)["topologyKey"] == key && fields(had)["whenUnsatisfiable"] == kind
	})
	switch {
	case index >= 0 && isEquivalent(has[index], constraint):
	case index >= 0:
		m.addConflict(field, has[index], constraint, reasonOwnValue)
	case m.object.daemon && kind == string(corev1.DoNotSchedule):
		m.addSkipped(field, nil, constraint, reasonDaemonSet)
	default:
		m.spec["topologySpreadConstraints"] = slices.Concat(has, []any{constraint})
		m.recordSetter(field)
		m.recordInjected(field)
	}
}

// constraintField identifies a constraint by the fields that must be unique within a pod.
func constraintField(constraint map[string]any) string {
	return "topologySpreadConstraints[" + text(constraint["topologyKey"]) + "," + text(constraint["whenUnsatisfiable"]) + "]"
}

// fillSelector sets an absent or empty labelSelector of a constraint to the selector of the protector that covers the pod. Without a
// protector, an empty labelSelector stays and selects all pods, as in Kubernetes. The reason says why the constraint
// cannot be added; it is empty if it can.
func (m *merger) fillSelector(policy *Policy, constraint map[string]any) (reason string) {
	if len(fields(constraint["labelSelector"])) > 0 {
		return ""
	}
	protector := m.protectorOf(policy)
	switch {
	case protector != nil:
	case constraint["labelSelector"] != nil:
		return ""
	default:
		return "it has no labelSelector, and no PodProtector that covers the pod has a known selector to use instead"
	}
	for _, key := range items(constraint["matchLabelKeys"]) {
		if hasRequirementOn(protector.Selector, text(key)) {
			return protector.String() + " selects by " + text(key) + ", which Kubernetes does not allow in matchLabelKeys as well"
		}
	}
	selector, err := fieldsOf(protector.Selector)
	if err != nil {
		return "the selector of " + protector.String() + " cannot be encoded: " + err.Error()
	}
	constraint["labelSelector"] = selector
	return ""
}

// hasRequirementOn reports whether a selector has a requirement on a label.
func hasRequirementOn(s *v1alpha1.PodSelector, key string) bool {
	_, labeled := s.MatchLabels[key]
	return labeled || slices.ContainsFunc(s.MatchExpressions, func(r v1alpha1.PodSelectorRequirement) bool { return r.Key == key })
}

// protectorOf returns the protector whose selector replaces a missing labelSelector of a policy: the first by name of those that the
// policy's protectorSelector matches.
func (m *merger) protectorOf(policy *Policy) *Protector {
	var first *Protector
	for i := range m.protectors {
		p := &m.protectors[i]
		isSelected := p.Core == policy.Core && p.Selector != nil && (policy.protectors == nil || policy.protectors.Matches(p.Labels))
		if isSelected && (first == nil || p.Name < first.Name) {
			first = p
		}
	}
	return first
}
