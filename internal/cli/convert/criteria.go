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

// areCriteria reports whether the criteria are valid in a policy. If not, the object is lost.
func (r *reading) areCriteria(c *v1alpha1.SchedulingCriteria) bool {
	ok := r.holds("nodeSelector", len(c.NodeSelector), maxNodeLabels)
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		ok = ok && r.is("nodeSelector", key, validation.IsQualifiedName) &&
			r.is("nodeSelector["+key+"]", c.NodeSelector[key], validation.IsValidLabelValue)
	}
	ok = ok && (c.NodeName == "" || r.is("nodeName", c.NodeName, validation.IsDNS1123Subdomain))
	ok = ok && (c.SchedulerName == "" || r.is("schedulerName", c.SchedulerName, validation.IsDNS1123Subdomain))
	ok = ok && r.areTolerations(c.Tolerations)
	if c.Affinity == nil {
		return ok
	}
	ok = ok && r.isNodeAffinity(c.Affinity.NodeAffinity)
	ok = ok && r.isPodAffinity("affinity.podAffinity", c.Affinity.PodAffinity)
	return ok && r.isPodAffinity("affinity.podAntiAffinity", c.Affinity.PodAntiAffinity)
}

// holds reports whether a list is within its limit.
func (r *reading) holds(field string, n, most int) bool {
	if n > most {
		r.lost(NotPossible, "its %s has %d items, of which %d are possible", field, n, most)
	}
	return n <= most
}

// is reports whether a value is valid.
func (r *reading) is(field, value string, problems func(string) []string) bool {
	wrong := problems(value)
	if len(wrong) > 0 {
		r.lost(Malformed, "its %s has %q, which is none: %s", field, value, wrong[0])
	}
	return len(wrong) == 0
}

// oneOf reports whether a value is one of the known values.
func (r *reading) oneOf(field, value string, known ...string) bool {
	if !slices.Contains(known, value) {
		r.lost(NotPossible, "its %s is %q, and must be one of %s", field, value, strings.Join(known, ", "))
		return false
	}
	return true
}

// must reports whether a rule is met. It records the reason if not.
func (r *reading) must(kept bool, reason Reason, format string, args ...any) bool {
	if !kept {
		r.lost(reason, format, args...)
	}
	return kept
}

func (r *reading) areTolerations(all []v1alpha1.Toleration) bool {
	if !r.holds("tolerations", len(all), maxTolerations) {
		return false
	}
	seen := map[v1alpha1.Toleration]bool{}
	for i := range all {
		field, t := fmt.Sprintf("tolerations[%d]", i), explicit(all[i])
		exists := t.Operator == string(corev1.TolerationOpExists)
		ok := r.oneOf(field+".operator", t.Operator, string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists)) &&
			r.oneOf(field+".effect", t.Effect, "", "NoSchedule", "PreferNoSchedule", "NoExecute") &&
			(t.Key == "" || r.is(field+".key", t.Key, validation.IsQualifiedName)) &&
			r.is(field+".value", t.Value, validation.IsValidLabelValue) &&
			r.must(t.Key != "" || exists, Malformed, "its %s has no key, which needs operator Exists", field) &&
			r.must(t.Value == "" || !exists, Malformed, "its %s has a value, which operator Exists does not take", field) &&
			r.must(t.TolerationSeconds == nil || t.Effect == "NoExecute", Malformed, "its %s has tolerationSeconds, which need effect NoExecute", field)
		t.TolerationSeconds = nil
		if !ok || !r.must(!seen[t], NotPossible, "its %s is of a taint that one before is of, for another time", field) {
			return false
		}
		seen[t] = true
	}
	return true
}

func (r *reading) isNodeAffinity(a *v1alpha1.NodeAffinity) bool {
	if a == nil {
		return true
	}
	const field = "affinity.nodeAffinity"
	ok := r.holds(field+".preferredDuringSchedulingIgnoredDuringExecution", len(a.Preferred), maxNodeTerms)
	for i := range a.Preferred {
		ok = ok && r.isWeight(field, a.Preferred[i].Weight) && r.isNodeTerm(field, &a.Preferred[i].Preference)
	}
	if a.Required == nil {
		return ok
	}
	ok = ok && r.holds(field+".requiredDuringSchedulingIgnoredDuringExecution", len(a.Required.Terms), maxNodeTerms)
	for i := range a.Required.Terms {
		ok = ok && r.isNodeTerm(field, &a.Required.Terms[i])
	}
	return ok
}

func (r *reading) isWeight(field string, weight int32) bool {
	return r.must(weight >= 1 && weight <= 100, Malformed, "its %s has the weight %d, which is not from 1 to 100", field, weight)
}

func (r *reading) isNodeTerm(field string, t *v1alpha1.NodeSelectorTerm) bool {
	ok := r.holds(field+", in a term, matchExpressions", len(t.MatchExpressions), maxRequirements) &&
		r.holds(field+", in a term, matchFields", len(t.MatchFields), maxRequirements)
	for _, e := range t.MatchExpressions {
		ok = ok && r.isNodeRequirement(field, &e)
	}
	for _, f := range t.MatchFields {
		ok = ok && r.oneOf(field+", in a term, key of matchFields", f.Key, "metadata.name") &&
			r.oneOf(field+", in a term, operator of matchFields", f.Operator, "In", "NotIn") &&
			r.must(len(f.Values) == 1, Malformed, "its %s has matchFields of %d values, which take one", field, len(f.Values)) &&
			r.is(field+", in a term, matchFields", f.Values[0], validation.IsDNS1123Subdomain)
	}
	return ok
}

func (r *reading) isNodeRequirement(field string, e *v1alpha1.NodeLabelRequirement) bool {
	field += ", in a term, " + e.Key
	ok := r.is(field, e.Key, validation.IsQualifiedName) && r.oneOf(field+", operator", e.Operator, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt") &&
		r.holds(field+", values", len(e.Values), maxNodeValues)
	for _, value := range e.Values {
		ok = ok && r.is(field, value, validation.IsValidLabelValue)
	}
	if !ok {
		return false
	}
	switch e.Operator {
	case "In", "NotIn":
		return r.must(len(e.Values) > 0, Malformed, "its %s has no values, which %s needs", field, e.Operator)
	case "Exists", "DoesNotExist":
		return r.must(len(e.Values) == 0, Malformed, "its %s has values, which %s does not take", field, e.Operator)
	}
	return r.must(len(e.Values) == 1 && isWhole(e.Values[0]), NotPossible, "its %s has not just one whole number of at most %d digits, which %s needs",
		field, maxDigits, e.Operator)
}

func isWhole(number string) bool {
	return number != "" && len(number) <= maxDigits && strings.Trim(number, "0123456789") == ""
}

func (r *reading) isPodAffinity(field string, a *v1alpha1.PodAffinity) bool {
	if a == nil {
		return true
	}
	ok := r.holds(field+".requiredDuringSchedulingIgnoredDuringExecution", len(a.Required), maxPodTerms) &&
		r.holds(field+".preferredDuringSchedulingIgnoredDuringExecution", len(a.Preferred), maxPodTerms)
	for i := range a.Required {
		ok = ok && r.isPodTerm(field, &a.Required[i])
	}
	for i := range a.Preferred {
		ok = ok && r.isWeight(field, a.Preferred[i].Weight) && r.isPodTerm(field, &a.Preferred[i].PodAffinityTerm)
	}
	return ok
}

func (r *reading) isPodTerm(field string, t *v1alpha1.PodAffinityTerm) bool {
	ok := r.is(field+", in a term, topologyKey", t.TopologyKey, validation.IsQualifiedName) &&
		r.holds(field+", in a term, namespaces", len(t.Namespaces), maxNamespaces)
	for _, namespace := range t.Namespaces {
		ok = ok && r.is(field+", in a term, namespaces", namespace, validation.IsDNS1123Label)
	}
	for _, selector := range []*v1alpha1.PodSelector{t.LabelSelector, t.NamespaceSelector} {
		if ok && selector != nil {
			_, ok = r.selector(field+", in a term, selector", selector.LabelSelector())
		}
	}
	return ok && r.areLabelKeys(field, t)
}

// areLabelKeys reports whether the keys of matchLabelKeys and mismatchLabelKeys are valid. Their values come from the pod's own labels.
func (r *reading) areLabelKeys(field string, t *v1alpha1.PodAffinityTerm) bool {
	ok := r.holds(field+", in a term, matchLabelKeys", len(t.MatchLabelKeys), maxKeys) &&
		r.holds(field+", in a term, mismatchLabelKeys", len(t.MismatchLabelKeys), maxKeys) &&
		r.must(t.LabelSelector != nil || len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) == 0, Malformed,
			"its %s has a term with matchLabelKeys or mismatchLabelKeys, which need a labelSelector", field)
	for _, key := range slices.Concat(t.MatchLabelKeys, t.MismatchLabelKeys) {
		ok = ok && r.is(field+", in a term, a label key", key, validation.IsQualifiedName)
	}
	for _, key := range t.MatchLabelKeys {
		if ok {
			_, selects := t.LabelSelector.MatchLabels[key]
			selects = selects || slices.ContainsFunc(t.LabelSelector.MatchExpressions, func(e v1alpha1.PodSelectorRequirement) bool { return e.Key == key })
			ok = r.must(!selects && !slices.Contains(t.MismatchLabelKeys, key), Malformed,
				"its %s has a term with %s among matchLabelKeys, and in labelSelector or mismatchLabelKeys too", field, key)
		}
	}
	return ok
}
