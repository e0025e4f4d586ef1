package convert

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// uniqueTolerations drops duplicate tolerations. It keeps those that differ only in tolerationSeconds, which isValidCriteria then rejects.
func uniqueTolerations(all []v1alpha1.Toleration) []v1alpha1.Toleration {
	var kept []v1alpha1.Toleration
	for i := range all {
		if !slices.ContainsFunc(kept, func(other v1alpha1.Toleration) bool {
			return equality.Semantic.DeepEqual(withDefaultOperator(other), withDefaultOperator(all[i]))
		}) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// withDefaultOperator sets the default operator of a toleration.
func withDefaultOperator(t v1alpha1.Toleration) v1alpha1.Toleration {
	t.Operator = cmp.Or(t.Operator, string(corev1.TolerationOpEqual))
	return t
}

// normalizeAffinity drops terms without effect and returns nil if none is left. The object is lost if no node can match.
func (r *conversion) normalizeAffinity(from *v1alpha1.Affinity) (*v1alpha1.Affinity, bool) {
	if from == nil {
		return nil, true
	}
	to := &v1alpha1.Affinity{PodAffinity: normalizePodAffinity(from.PodAffinity), PodAntiAffinity: normalizePodAffinity(from.PodAntiAffinity)}
	var ok bool
	if to.NodeAffinity, ok = r.normalizeNodeAffinity(from.NodeAffinity); !ok {
		return nil, false
	}
	if *to == (v1alpha1.Affinity{}) {
		return nil, true
	}
	return to, true
}

// normalizePodAffinity drops an affinity without terms.
func normalizePodAffinity(from *v1alpha1.PodAffinity) *v1alpha1.PodAffinity {
	if from == nil || len(from.Required)+len(from.Preferred) == 0 {
		return nil
	}
	return from
}

// normalizeNodeAffinity drops empty terms: no node matches a required one, and a preferred one has no effect.
func (r *conversion) normalizeNodeAffinity(from *v1alpha1.NodeAffinity) (*v1alpha1.NodeAffinity, bool) {
	if from == nil {
		return nil, true
	}
	to := &v1alpha1.NodeAffinity{}
	for _, each := range from.Preferred {
		if !isEmptyTerm(&each.Preference) {
			to.Preferred = append(to.Preferred, each)
		}
	}
	if from.Required != nil {
		terms := slices.DeleteFunc(slices.Clone(from.Required.Terms), func(t v1alpha1.NodeSelectorTerm) bool { return isEmptyTerm(&t) })
		if len(terms) == 0 {
			r.reject(NotPossible, "no term of its required node affinity has a requirement, and no node matches such a term")
			return nil, false
		}
		to.Required = &v1alpha1.NodeSelector{Terms: terms}
	}
	if to.Required == nil && to.Preferred == nil {
		return nil, true
	}
	return to, true
}

func isEmptyTerm(t *v1alpha1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions)+len(t.MatchFields) == 0
}
