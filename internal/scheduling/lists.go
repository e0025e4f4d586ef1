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
func (m *merging) addTolerations(wants []any) {
	for _, each := range wants {
		toleration := fields(each)
		of, seconds, has := tolerates(toleration), toleration["tolerationSeconds"], items(m.spec["tolerations"])
		isOf := func(had any) bool { return tolerates(fields(had)) == of }
		at := slices.IndexFunc(has, isOf)
		switch {
		case at < 0:
			m.spec["tolerations"] = slices.Concat(has, []any{each})
			m.claim(of.String())
			m.injected("tolerations")
		case !slices.ContainsFunc(has, func(had any) bool { return isOf(had) && fields(had)["tolerationSeconds"] == seconds }):
			m.conflict(of.String(), fields(has[at])["tolerationSeconds"], seconds, ownValue)
		}
	}
}

// taint identifies the taints that a toleration tolerates.
type taint struct{ key, operator, value, effect string }

func tolerates(t map[string]any) taint {
	operator := cmp.Or(text(t["operator"]), string(corev1.TolerationOpEqual))
	return taint{text(t["key"]), operator, text(t["value"]), text(t["effect"])}
}

// String returns the name of the field for messages and claims.
func (t taint) String() string {
	return "tolerations[" + t.key + "," + t.operator + "," + t.value + "," + t.effect + "].tolerationSeconds"
}

// addConstraints adds topology spread constraints, unless the pod has one with the same topologyKey and whenUnsatisfiable.
func (m *merging) addConstraints(policy *Policy, wants []any) {
	for _, each := range wants {
		constraint := maps.Clone(fields(each))
		if why := m.fillSelector(policy, constraint); why != "" {
			m.skip(constraintField(constraint), nil, each, why)
			continue
		}
		m.addConstraint(constraint)
	}
}

func (m *merging) addConstraint(constraint map[string]any) {
	key, kind := constraint["topologyKey"], constraint["whenUnsatisfiable"]
	field, has := constraintField(constraint), items(m.spec["topologySpreadConstraints"])
	at := slices.IndexFunc(has, func(had any) bool {
		return fields(had)["topologyKey"] == key && fields(had)["whenUnsatisfiable"] == kind
	})
	switch {
	case at >= 0 && isSame(has[at], constraint):
	case at >= 0:
		m.conflict(field, has[at], constraint, ownValue)
	case m.object.daemon && kind == string(corev1.DoNotSchedule):
		m.skip(field, nil, constraint, ofDaemonSet)
	default:
		m.spec["topologySpreadConstraints"] = slices.Concat(has, []any{constraint})
		m.claim(field)
		m.injected(field)
	}
}

// constraintField identifies a constraint by the fields that must be unique within a pod.
func constraintField(constraint map[string]any) string {
	return "topologySpreadConstraints[" + text(constraint["topologyKey"]) + "," + text(constraint["whenUnsatisfiable"]) + "]"
}

// fillSelector sets an absent or empty labelSelector of a constraint to the selector of the protector that covers the pod. Without a
// protector, an empty labelSelector stays and selects all pods, as in Kubernetes. why is set if there is no protector to replace an
// absent one.
func (m *merging) fillSelector(policy *Policy, constraint map[string]any) (why string) {
	if len(fields(constraint["labelSelector"])) > 0 {
		return ""
	}
	protector := m.protectorOf(policy)
	switch {
	case protector != nil:
	case constraint["labelSelector"] != nil:
		return ""
	default:
		return "it has no labelSelector, and no PodProtector covers the pod whose selector could stand in"
	}
	for _, key := range items(constraint["matchLabelKeys"]) {
		if selectsBy(protector.Selector, text(key)) {
			return protector.String() + " selects by " + text(key) + ", which Kubernetes refuses among matchLabelKeys as well"
		}
	}
	selector, err := fieldsOf(protector.Selector)
	if err != nil {
		return "the selector of " + protector.String() + " cannot be written: " + err.Error()
	}
	constraint["labelSelector"] = selector
	return ""
}

// selectsBy reports whether a selector has a requirement on a label.
func selectsBy(s *v1alpha1.PodSelector, key string) bool {
	_, labelled := s.MatchLabels[key]
	return labelled || slices.ContainsFunc(s.MatchExpressions, func(r v1alpha1.PodSelectorRequirement) bool { return r.Key == key })
}

// protectorOf returns the protector whose selector replaces a missing labelSelector of a policy: the first by name of those that the
// policy's protectorSelector matches.
func (m *merging) protectorOf(policy *Policy) *Protector {
	var first *Protector
	for i := range m.protectors {
		p := &m.protectors[i]
		chosen := p.Core == policy.Core && p.Selector != nil && (policy.protectors == nil || policy.protectors.Matches(p.Labels))
		if chosen && (first == nil || p.Name < first.Name) {
			first = p
		}
	}
	return first
}
