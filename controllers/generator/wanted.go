package generator

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
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
		!equality.Semantic.DeepEqual(have.TargetRef, want.TargetRef) ||
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

// protectorAfterApply returns a protector as it will be when the generator has applied wanted, if the generator owns no field that wanted does not
// set.
func protectorAfterApply(protector *v1alpha1.PodProtector, wanted policy.Protector) *v1alpha1.PodProtector {
	after := protector.DeepCopy()
	to, want := &after.Spec, &wanted.Object.Spec
	setFloorAndCoverage(to, want)
	to.MinReadySeconds = want.MinReadySeconds
	to.Criterion = cmp.Or(want.Criterion, to.Criterion)
	to.CoreOutage = cmp.Or(want.CoreOutage, to.CoreOutage)
	to.TargetRemovalPolicy = cmp.Or(want.TargetRemovalPolicy, to.TargetRemovalPolicy)
	to.ExemptPodSelector = cmp.Or(want.ExemptPodSelector, to.ExemptPodSelector)
	to.Spread = cmp.Or(want.Spread, to.Spread)
	if wanted.Tuning != nil {
		to.AdmissionHistory.UpdateTimeoutSeconds = cmp.Or(wanted.Tuning.UpdateTimeoutSeconds, to.AdmissionHistory.UpdateTimeoutSeconds)
	}
	for _, o := range want.Operations {
		if !slices.Contains(to.Operations, o) {
			to.Operations = append(to.Operations, o)
		}
	}
	return after
}

// setFloorAndCoverage sets the fields that the generator writes even if other clients set an alternative of them.
func setFloorAndCoverage(to, from *v1alpha1.PodProtectorSpec) {
	to.MinAvailable, to.MaxUnavailable, to.Selector, to.TargetRef = from.MinAvailable, from.MaxUnavailable, from.Selector, from.TargetRef
}

// hasSameRecord reports whether wanted results from the rule that the protector records. The generator then owns no field that wanted does not set.
func hasSameRecord(protector *v1alpha1.PodProtector, wanted policy.Protector) bool {
	return !slices.ContainsFunc([]string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationPolicyRule}, func(key string) bool {
		return protector.Annotations[key] != wanted.Object.Annotations[key]
	})
}

// hasSameFloor reports whether two protectors have the same floor in their specs.
func hasSameFloor(a, b *v1alpha1.PodProtector) bool {
	return equality.Semantic.DeepEqual(a.Spec.MinAvailable, b.Spec.MinAvailable) && equality.Semantic.DeepEqual(a.Spec.MaxUnavailable, b.Spec.MaxUnavailable)
}

// withCurrentProtection returns wanted without what it would weaken: drift of the other fields is still corrected, and a floor may rise. It keeps the
// record of the rule, by which the decrease is still found.
func withCurrentProtection(protector *v1alpha1.PodProtector, wanted policy.Protector, weakening brake.Weakening) policy.Protector {
	wanted.Object = wanted.Object.DeepCopy()
	weakening.Keep(&wanted.Object.Spec, &protector.Spec)
	if timeout := wanted.Object.Spec.AdmissionHistory.UpdateTimeoutSeconds; timeout != nil {
		tuning := ptr.Deref(wanted.Tuning, v1alpha1.AdmissionHistoryTuning{})
		tuning.UpdateTimeoutSeconds = timeout
		wanted.Tuning = &tuning
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

// withRestoreMark returns wanted with the mark of a protector that waits for its status. The generator gave it, and would remove it by an apply without it.
func withRestoreMark(protector *v1alpha1.PodProtector, wanted policy.Protector) policy.Protector {
	if quota.IsRestorePending(protector) {
		wanted.Object = wanted.Object.DeepCopy()
		wanted.Object.Annotations[v1alpha1.AnnotationRestored] = protector.Annotations[v1alpha1.AnnotationRestored]
	}
	return wanted
}
