package v1alpha1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelSelector returns the selector as a Kubernetes label selector. It is nil for nil.
func (in *PodSelector) LabelSelector() *metav1.LabelSelector {
	if in == nil {
		return nil
	}
	plain := &metav1.LabelSelector{MatchLabels: in.MatchLabels}
	for _, requirement := range in.MatchExpressions {
		plain.MatchExpressions = append(plain.MatchExpressions, metav1.LabelSelectorRequirement(requirement))
	}
	return plain
}

// PodSelectorOf returns a Kubernetes label selector as a PodSelector. It is nil for nil. Both share their values.
func PodSelectorOf(plain *metav1.LabelSelector) *PodSelector {
	if plain == nil {
		return nil
	}
	selector := &PodSelector{MatchLabels: plain.MatchLabels}
	for _, requirement := range plain.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, PodSelectorRequirement(requirement))
	}
	return selector
}

// ParsePodSelector parses a selector in the syntax of kubectl's --selector, which a scale uses as well. It returns an error for
// numeric comparisons, which a label selector does not have.
func ParsePodSelector(text string) (*PodSelector, error) {
	parsed, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, err
	}
	return PodSelectorOf(parsed), nil
}

// DeepCopyInto copies the selector. Written by hand: controller-gen cannot copy a map of an alias.
func (in *PodSelector) DeepCopyInto(out *PodSelector) {
	out.MatchLabels = maps.Clone(in.MatchLabels)
	out.MatchExpressions = slices.Clone(in.MatchExpressions)
	for i := range out.MatchExpressions {
		out.MatchExpressions[i].Values = slices.Clone(out.MatchExpressions[i].Values)
	}
}

// DeepCopy copies the selector.
func (in *PodSelector) DeepCopy() *PodSelector {
	if in == nil {
		return nil
	}
	out := new(PodSelector)
	in.DeepCopyInto(out)
	return out
}
