package v1alpha1

import (
	"maps"
	"slices"
)

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
