package scheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// addTolerations adds those that the pod has not. To tolerate a taint for another time is a conflict.
func (m *merging) addTolerations(wants []any) {
	for _, each := range wants {
		toleration := fields(each)
		same := slices.DeleteFunc(slices.Clone(items(m.spec["tolerations"])), func(has any) bool {
			return tolerates(fields(has)) != tolerates(toleration)
		})
		seconds := toleration["tolerationSeconds"]
		if len(same) == 0 {
			m.spec["tolerations"] = append(items(m.spec["tolerations"]), copied(each))
			m.claim(tolerationField(toleration))
			m.injected("tolerations")
		} else if !slices.ContainsFunc(same, func(has any) bool { return fields(has)["tolerationSeconds"] == seconds }) {
			m.conflict(tolerationField(toleration), fields(same[0])["tolerationSeconds"], seconds, ownValue)
		}
	}
}

// taint is what a toleration is of.
type taint struct{ key, operator, value, effect string }

func tolerates(t map[string]any) taint {
	operator := cmp.Or(text(t["operator"]), string(corev1.TolerationOpEqual))
	return taint{text(t["key"]), operator, text(t["value"]), text(t["effect"])}
}

func tolerationField(t map[string]any) string {
	of := tolerates(t)
	return "tolerations[" + of.key + "," + of.operator + "," + of.value + "," + of.effect + "].tolerationSeconds"
}

// addSpread adds constraints of which the pod has none of the same key and kind.
func (m *merging) addSpread(wants []any) {
	for _, each := range wants {
		constraint := copied(fields(each))
		key, kind := text(constraint["topologyKey"]), text(constraint["whenUnsatisfiable"])
		field := "topologySpreadConstraints[" + key + "," + kind + "]"
		why := m.fillSelector(constraint)
		at := slices.IndexFunc(items(m.spec["topologySpreadConstraints"]), func(has any) bool {
			return fields(has)["topologyKey"] == key && fields(has)["whenUnsatisfiable"] == kind
		})
		switch {
		case why != "":
			m.skip(field, nil, each, why)
		case at >= 0:
			has := items(m.spec["topologySpreadConstraints"])[at]
			if canonical(has) != canonical(constraint) {
				m.conflict(field, has, constraint, ownValue)
			}
		case m.object.daemon && kind == string(corev1.DoNotSchedule):
			m.skip(field, nil, each, ofDaemonSet)
		default:
			m.spec["topologySpreadConstraints"] = append(items(m.spec["topologySpreadConstraints"]), constraint)
			m.claim(field)
			m.injected(field)
		}
	}
}

// fillSelector gives a constraint without a labelSelector that of the protector which covers the pod; why tells that it has none.
func (m *merging) fillSelector(constraint map[string]any) (why string) {
	if constraint["labelSelector"] != nil {
		return ""
	}
	protector := m.protector()
	if protector == nil {
		return "it has no labelSelector, and no PodProtector covers the pod whose selector could stand in"
	}
	for _, key := range items(constraint["matchLabelKeys"]) {
		_, labelled := protector.Selector.MatchLabels[text(key)]
		if labelled || slices.ContainsFunc(protector.Selector.MatchExpressions, func(r v1alpha1.PodSelectorRequirement) bool { return r.Key == key }) {
			return "PodProtector " + protector.Name + " selects by " + text(key) + ", which Kubernetes refuses among matchLabelKeys as well"
		}
	}
	selector, err := fieldsOf(protector.Selector)
	if err != nil {
		return "the selector of PodProtector " + protector.Name + " cannot be written: " + err.Error()
	}
	constraint["labelSelector"] = selector
	return ""
}

// protector is the one whose selector stands in for one that the policy has not: of those that its protectorSelector chooses, the one whose
// name comes first.
func (m *merging) protector() *Protector {
	var first *Protector
	for i := range m.protectors {
		p, policy := &m.protectors[i], m.outcome.Policy
		chosen := p.Core == policy.Core && p.Selector != nil && (policy.protectors == nil || policy.protectors.Matches(p.Labels))
		if chosen && (first == nil || p.Name < first.Name) {
			first = p
		}
	}
	return first
}
