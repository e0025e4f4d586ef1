package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Limits of v1alpha1.SchedulingCriteria.
const (
	maxNodeLabels   = 32
	maxTolerations  = 32
	maxNodeTerms    = 16
	maxRequirements = 16
	maxNodeValues   = 128
	maxPodTerms     = 8
	maxNamespaces   = 16
	maxKeys         = 8
	maxDigits       = 18
)

// criteriaValidation checks scheduling criteria. It rejects the conversion at the first problem.
type criteriaValidation struct{ of *conversion }

// isValidCriteria reports whether the criteria are valid in a policy.
func (v criteriaValidation) isValidCriteria(c *v1alpha1.SchedulingCriteria) bool {
	ok := v.isWithinLimit("nodeSelector", len(c.NodeSelector), maxNodeLabels)
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		ok = ok && v.isValid("nodeSelector", key, validation.IsQualifiedName) &&
			v.isValid("nodeSelector["+key+"]", c.NodeSelector[key], validation.IsValidLabelValue)
	}
	ok = ok && (c.NodeName == "" || v.isValid("nodeName", c.NodeName, validation.IsDNS1123Subdomain))
	ok = ok && (c.SchedulerName == "" || v.isValid("schedulerName", c.SchedulerName, validation.IsDNS1123Subdomain))
	ok = ok && v.hasValidTolerations(c.Tolerations)
	if c.Affinity == nil {
		return ok
	}
	ok = ok && v.isValidNodeAffinity(c.Affinity.NodeAffinity)
	ok = ok && v.isValidPodAffinity("affinity.podAffinity", c.Affinity.PodAffinity)
	return ok && v.isValidPodAffinity("affinity.podAntiAffinity", c.Affinity.PodAntiAffinity)
}

// isWithinLimit reports whether a list is within its limit.
func (v criteriaValidation) isWithinLimit(field string, n, limit int) bool {
	return v.require(n <= limit, NotPossible, "its %s has %d items, but the maximum is %d", field, n, limit)
}

// isValid reports whether a value is valid.
func (v criteriaValidation) isValid(field, value string, problems func(string) []string) bool {
	wrong := problems(value)
	if len(wrong) > 0 {
		v.of.reject(Malformed, "its %s has the invalid value %q: %s", field, value, wrong[0])
	}
	return len(wrong) == 0
}

// isOneOf reports whether a value is one of the known values.
func (v criteriaValidation) isOneOf(field, value string, known ...string) bool {
	return v.require(slices.Contains(known, value), NotPossible, "its %s is %q, but must be one of %s", field, value, strings.Join(known, ", "))
}

// require reports whether a rule is met. It records the reason if not.
func (v criteriaValidation) require(valid bool, reason Reason, format string, args ...any) bool {
	if !valid {
		v.of.reject(reason, format, args...)
	}
	return valid
}

func (v criteriaValidation) hasValidTolerations(all []v1alpha1.Toleration) bool {
	if !v.isWithinLimit("tolerations", len(all), maxTolerations) {
		return false
	}
	seen := map[v1alpha1.Toleration]bool{}
	for i := range all {
		field, t := fmt.Sprintf("tolerations[%d]", i), withDefaultOperator(all[i])
		exists := t.Operator == string(corev1.TolerationOpExists)
		ok := v.isOneOf(field+".operator", t.Operator, string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists)) &&
			v.isOneOf(field+".effect", t.Effect, "", "NoSchedule", "PreferNoSchedule", "NoExecute") &&
			(t.Key == "" || v.isValid(field+".key", t.Key, validation.IsQualifiedName)) &&
			v.isValid(field+".value", t.Value, validation.IsValidLabelValue) &&
			v.require(t.Key != "" || exists, Malformed, "its %s has no key, which requires operator Exists", field) &&
			v.require(t.Value == "" || !exists, Malformed, "its %s has a value, which operator Exists does not allow", field) &&
			v.require(t.TolerationSeconds == nil || t.Effect == "NoExecute", Malformed, "its %s has tolerationSeconds, which requires effect NoExecute", field)
		t.TolerationSeconds = nil
		if !ok || !v.require(!seen[t], NotPossible, "its %s tolerates the same taint as an earlier one, with other tolerationSeconds", field) {
			return false
		}
		seen[t] = true
	}
	return true
}

func (v criteriaValidation) isValidNodeAffinity(a *v1alpha1.NodeAffinity) bool {
	if a == nil {
		return true
	}
	const field = "affinity.nodeAffinity"
	ok := v.isWithinLimit(field+".preferredDuringSchedulingIgnoredDuringExecution", len(a.Preferred), maxNodeTerms)
	for i := range a.Preferred {
		ok = ok && v.isValidWeight(field, a.Preferred[i].Weight) && v.isValidNodeTerm(field, &a.Preferred[i].Preference)
	}
	if a.Required == nil {
		return ok
	}
	ok = ok && v.isWithinLimit(field+".requiredDuringSchedulingIgnoredDuringExecution", len(a.Required.Terms), maxNodeTerms)
	for i := range a.Required.Terms {
		ok = ok && v.isValidNodeTerm(field, &a.Required.Terms[i])
	}
	return ok
}

func (v criteriaValidation) isValidWeight(field string, weight int32) bool {
	return v.require(weight >= 1 && weight <= 100, Malformed, "its %s has the weight %d, but the range is 1 to 100", field, weight)
}

func (v criteriaValidation) isValidNodeTerm(field string, t *v1alpha1.NodeSelectorTerm) bool {
	ok := v.isWithinLimit(field+", in a term, matchExpressions", len(t.MatchExpressions), maxRequirements) &&
		v.isWithinLimit(field+", in a term, matchFields", len(t.MatchFields), maxRequirements)
	for _, e := range t.MatchExpressions {
		ok = ok && v.isValidNodeRequirement(field, &e)
	}
	for _, f := range t.MatchFields {
		ok = ok && v.isOneOf(field+", in a term, key of matchFields", f.Key, "metadata.name") &&
			v.isOneOf(field+", in a term, operator of matchFields", f.Operator, "In", "NotIn") &&
			v.require(len(f.Values) == 1, Malformed, "its %s has matchFields with %d values, but must have one", field, len(f.Values)) &&
			v.isValid(field+", in a term, matchFields", f.Values[0], validation.IsDNS1123Subdomain)
	}
	return ok
}

func (v criteriaValidation) isValidNodeRequirement(field string, e *v1alpha1.NodeLabelRequirement) bool {
	field += ", in a term, " + e.Key
	ok := v.isValid(field, e.Key, validation.IsQualifiedName) && v.isOneOf(field+", operator", e.Operator, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt") &&
		v.isWithinLimit(field+", values", len(e.Values), maxNodeValues)
	for _, value := range e.Values {
		ok = ok && v.isValid(field, value, validation.IsValidLabelValue)
	}
	if !ok {
		return false
	}
	switch e.Operator {
	case "In", "NotIn":
		return v.require(len(e.Values) > 0, Malformed, "its %s has no values, which %s requires", field, e.Operator)
	case "Exists", "DoesNotExist":
		return v.require(len(e.Values) == 0, Malformed, "its %s has values, which %s does not allow", field, e.Operator)
	}
	return v.require(len(e.Values) == 1 && isWholeNumber(e.Values[0]), NotPossible,
		"its %s does not have exactly one whole number of at most %d digits, which %s requires",
		field, maxDigits, e.Operator)
}

func isWholeNumber(number string) bool {
	return number != "" && len(number) <= maxDigits && strings.Trim(number, "0123456789") == ""
}

func (v criteriaValidation) isValidPodAffinity(field string, a *v1alpha1.PodAffinity) bool {
	if a == nil {
		return true
	}
	ok := v.isWithinLimit(field+".requiredDuringSchedulingIgnoredDuringExecution", len(a.Required), maxPodTerms) &&
		v.isWithinLimit(field+".preferredDuringSchedulingIgnoredDuringExecution", len(a.Preferred), maxPodTerms)
	for i := range a.Required {
		ok = ok && v.isValidPodTerm(field, &a.Required[i])
	}
	for i := range a.Preferred {
		ok = ok && v.isValidWeight(field, a.Preferred[i].Weight) && v.isValidPodTerm(field, &a.Preferred[i].PodAffinityTerm)
	}
	return ok
}

func (v criteriaValidation) isValidPodTerm(field string, t *v1alpha1.PodAffinityTerm) bool {
	ok := v.isValid(field+", in a term, topologyKey", t.TopologyKey, validation.IsQualifiedName) &&
		v.isWithinLimit(field+", in a term, namespaces", len(t.Namespaces), maxNamespaces)
	for _, namespace := range t.Namespaces {
		ok = ok && v.isValid(field+", in a term, namespaces", namespace, validation.IsDNS1123Label)
	}
	for _, selector := range []*v1alpha1.PodSelector{t.LabelSelector, t.NamespaceSelector} {
		if ok && selector != nil {
			_, ok = v.of.selector(field+", in a term, selector", selector.LabelSelector())
		}
	}
	return ok && v.hasValidLabelKeys(field, t)
}

// hasValidLabelKeys reports whether the keys of matchLabelKeys and mismatchLabelKeys are valid. Their values come from the pod's own labels.
func (v criteriaValidation) hasValidLabelKeys(field string, t *v1alpha1.PodAffinityTerm) bool {
	ok := v.isWithinLimit(field+", in a term, matchLabelKeys", len(t.MatchLabelKeys), maxKeys) &&
		v.isWithinLimit(field+", in a term, mismatchLabelKeys", len(t.MismatchLabelKeys), maxKeys) &&
		v.require(t.LabelSelector != nil || len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) == 0, Malformed,
			"its %s has a term with matchLabelKeys or mismatchLabelKeys, which require a labelSelector", field)
	for _, key := range slices.Concat(t.MatchLabelKeys, t.MismatchLabelKeys) {
		ok = ok && v.isValid(field+", in a term, a label key", key, validation.IsQualifiedName)
	}
	for _, key := range t.MatchLabelKeys {
		if ok {
			_, selects := t.LabelSelector.MatchLabels[key]
			selects = selects || slices.ContainsFunc(t.LabelSelector.MatchExpressions, func(e v1alpha1.PodSelectorRequirement) bool { return e.Key == key })
			ok = v.require(!selects && !slices.Contains(t.MismatchLabelKeys, key), Malformed,
				"its %s has a term with %s in matchLabelKeys, and also in labelSelector or mismatchLabelKeys", field, key)
		}
	}
	return ok
}
