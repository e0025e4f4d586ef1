package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Limits of v1alpha1.PodSelector. The cost of CEL rules in CRDs depends on the size of their input, so that it must be bounded.
// Selectors of other systems are not bounded.
const (
	maxMatchLabels      = 64
	maxMatchExpressions = 64
	maxValues           = 1000
)

// selector converts a selector. If it would be rejected, the object is lost: a protector must not cover other pods.
func (r *conversion) selector(field string, from *metav1.LabelSelector) (*v1alpha1.PodSelector, bool) {
	for i, expression := range from.MatchExpressions {
		if n := len(expression.Values); n > maxValues {
			r.reject(NotPossible, "its %s.matchExpressions[%d] has %d values, but the maximum is %d", field, i, n, maxValues)
			return nil, false
		}
	}
	to := v1alpha1.PodSelectorOf(from)
	switch {
	case len(to.MatchLabels) > maxMatchLabels:
		r.reject(NotPossible, "its %s has %d matchLabels, but the maximum is %d", field, len(to.MatchLabels), maxMatchLabels)
		return nil, false
	case len(to.MatchExpressions) > maxMatchExpressions:
		r.reject(NotPossible, "its %s has %d matchExpressions, but the maximum is %d", field, len(to.MatchExpressions), maxMatchExpressions)
		return nil, false
	}
	if _, err := selectors.Compile(*to); err != nil {
		r.reject(Malformed, "its %s is malformed: %s", field, oneLine(err))
		return nil, false
	}
	return to, true
}

// protectedSelector converts the selector of the protected pods. If no pod can match, the object protects nothing and is lost.
func (r *conversion) protectedSelector(from *metav1.LabelSelector) (*v1alpha1.PodSelector, bool) {
	to, ok := r.selector("selector", from)
	if !ok {
		return nil, false
	}
	if compiled, err := selectors.Compile(*to); err == nil && !compiled.CanMatch() {
		r.reject(ProtectsNothing, "no pod can match its selector")
		return nil, false
	}
	return to, true
}
