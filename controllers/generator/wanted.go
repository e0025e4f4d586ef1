package generator

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// differs reports whether a protector differs from wanted in a field that the generator owns. A field that its policy no longer sets shows
// as a difference in the record of the policy.
func differs(protector *v1alpha1.PodProtector, wanted policy.Protector) bool {
	have, want := &protector.Spec, &wanted.Object.Spec
	return !containsAll(protector.Labels, wanted.Object.Labels) ||
		!containsAll(protector.Annotations, wanted.Object.Annotations) ||
		!slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector) ||
		slices.ContainsFunc(ownedAnnotations(), func(key string) bool {
			return protector.Annotations[key] != wanted.Object.Annotations[key]
		}) ||
		!equality.Semantic.DeepEqual(have.MinAvailable, want.MinAvailable) ||
		!equality.Semantic.DeepEqual(have.MaxUnavailable, want.MaxUnavailable) ||
		have.TargetRef != nil ||
		have.MinReadySeconds != want.MinReadySeconds ||
		!equality.Semantic.DeepEqual(have.Selector, want.Selector) ||
		want.Criterion != "" && have.Criterion != want.Criterion ||
		want.CoreOutage != "" && have.CoreOutage != want.CoreOutage ||
		want.TargetRemovalPolicy != "" && have.TargetRemovalPolicy != want.TargetRemovalPolicy ||
		want.ExemptPodSelector != nil && !equality.Semantic.DeepEqual(have.ExemptPodSelector, want.ExemptPodSelector) ||
		want.Spread != nil && !equality.Semantic.DeepEqual(have.Spread, want.Spread) ||
		slices.ContainsFunc(want.Operations, func(o v1alpha1.Operation) bool { return !slices.Contains(have.Operations, o) }) ||
		differsInTuning(&have.AdmissionHistory, wanted.Tuning)
}

// ownedAnnotations returns the annotations that only a policy or a part gives to a protector.
func ownedAnnotations() []string {
	return []string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationPolicyRule, v1alpha1.AnnotationSourcePart, v1alpha1.AnnotationFloorReference}
}

func differsInTuning(have *v1alpha1.AdmissionHistorySpec, want *v1alpha1.AdmissionHistoryTuning) bool {
	if want == nil {
		return false
	}
	isDifferent := func(have, want *int32) bool { return want != nil && (have == nil || *have != *want) }
	return isDifferent(&have.MaxConcurrentLag, want.MaxConcurrentLag) || isDifferent(have.CompactThreshold, want.CompactThreshold) ||
		isDifferent(have.UpdateTimeoutSeconds, want.UpdateTimeoutSeconds) || isDifferent(have.AggregationRateMillis, want.AggregationRateMillis)
}

func containsAll(all, part map[string]string) bool {
	for key, value := range part {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// protectorAfterApply returns a protector as it will be when the generator has applied wanted.
func protectorAfterApply(protector *v1alpha1.PodProtector, wanted policy.Protector) *v1alpha1.PodProtector {
	after := protector.DeepCopy()
	to, want := &after.Spec, &wanted.Object.Spec
	to.MinAvailable, to.MaxUnavailable, to.Selector, to.MinReadySeconds = want.MinAvailable, want.MaxUnavailable, want.Selector, want.MinReadySeconds
	if want.Criterion != "" {
		to.Criterion = want.Criterion
	}
	if want.ExemptPodSelector != nil {
		to.ExemptPodSelector = want.ExemptPodSelector
	}
	if len(want.Operations) > 0 {
		// Operations that a user added stay. A record that cannot be parsed has no operations to remove.
		origin, _ := policy.OriginOf(protector)
		to.Operations = slices.DeleteFunc(slices.Clone(to.Operations), func(o v1alpha1.Operation) bool {
			return slices.Contains(origin.Operations, o) && !slices.Contains(want.Operations, o)
		})
		for _, o := range want.Operations {
			if !slices.Contains(to.Operations, o) {
				to.Operations = append(to.Operations, o)
			}
		}
	}
	return after
}

// withCurrentProtection returns wanted with the present protection of the protector: drift of the other fields is still corrected.
func withCurrentProtection(protector *v1alpha1.PodProtector, wanted policy.Protector) policy.Protector {
	wanted.Object = wanted.Object.DeepCopy()
	to, have := &wanted.Object.Spec, &protector.Spec
	to.MinAvailable, to.MaxUnavailable, to.Selector = have.MinAvailable, have.MaxUnavailable, have.Selector
	to.MinReadySeconds, to.ExemptPodSelector = have.MinReadySeconds, have.ExemptPodSelector
	if to.Criterion != "" {
		to.Criterion = have.Criterion
	}
	if len(to.Operations) > 0 {
		to.Operations = have.Operations
	}
	for _, key := range []string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationPolicyRule, v1alpha1.AnnotationFloorReference} {
		if value, ok := protector.Annotations[key]; ok {
			wanted.Object.Annotations[key] = value
		} else {
			delete(wanted.Object.Annotations, key)
		}
	}
	return wanted
}
