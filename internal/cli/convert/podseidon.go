package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const (
	podseidonGroup = "podseidon.kubewharf.io"
	// Labels with which Podseidon's generator records the source of a protector.
	podseidonSourceKind = podseidonGroup + "/source-kind"
	podseidonSourceName = podseidonGroup + "/source-name"
)

// Limits of v1alpha1.AdmissionHistorySpec.
const (
	maxCompactThreshold      = 1000
	maxAggregationRateMillis = 3600_000
)

// podseidonSpec is the spec of a PodProtector of Podseidon.
type podseidonSpec struct {
	MinAvailable        *int32                `json:"minAvailable"`
	MinReadySeconds     int32                 `json:"minReadySeconds"`
	Selector            *metav1.LabelSelector `json:"selector"`
	AggregationSelector *metav1.LabelSelector `json:"aggregationSelector,omitempty"`

	AdmissionHistoryConfig struct {
		MaxConcurrentLag      *int32 `json:"maxConcurrentLag,omitempty"`
		CompactThreshold      *int32 `json:"compactThreshold,omitempty"`
		AggregationRateMillis *int32 `json:"aggregationRateMillis,omitempty"`
	} `json:"admissionHistoryConfig,omitempty"`
}

// convertPodseidonProtector converts a PodProtector of Podseidon.
func convertPodseidonProtector(r *conversion, object *unstructured.Unstructured, fields map[string]any) (v1alpha1.PodProtectorSpec, bool) {
	var to v1alpha1.PodProtectorSpec
	from, ok := decode[podseidonSpec](r, fields)
	switch {
	case !ok:
		return to, false
	case from.MinAvailable == nil || *from.MinAvailable < 0:
		r.reject(Malformed, "it has no minAvailable of 0 or more")
		return to, false
	case from.Selector == nil:
		r.reject(Malformed, "it has no selector")
		return to, false
	}
	if to.Selector, ok = r.protectedSelector(from.Selector); !ok {
		return to, false
	}
	if !r.copyAggregationSelector(&to, from.AggregationSelector) {
		return to, false
	}
	to.MinAvailable = v1alpha1.Pods(*from.MinAvailable)
	to.MinReadySeconds = max(0, from.MinReadySeconds)

	config := from.AdmissionHistoryConfig
	if lag := r.limitToRange("maxConcurrentLag", config.MaxConcurrentLag, 1<<31-1); lag != nil {
		to.AdmissionHistory.MaxConcurrentLag = *lag
	}
	to.AdmissionHistory.CompactThreshold = r.limitToRange("compactThreshold", config.CompactThreshold, maxCompactThreshold)
	to.AdmissionHistory.AggregationRateMillis = r.limitToRange("aggregationRateMillis", config.AggregationRateMillis, maxAggregationRateMillis)

	if source := object.GetLabels()[podseidonSourceName]; source != "" {
		kind := object.GetLabels()[podseidonSourceKind]
		r.generated = object.GetName() == policy.ProtectorName(policy.Ref{Group: "apps", Kind: "Deployment", Name: source})
		r.warn(DoesNotFollow, "Podseidon generated it for %s %s, which the protector does not follow: let Breakwater's generator create one (label the "+
			"workload in "+
			"the core %s=true), and omit this one", orElse(kind, "the workload"), source, v1alpha1.LabelProtect)
	}
	return to, true
}

// copyAggregationSelector copies the aggregationSelector, which must include all protected pods.
func (r *conversion) copyAggregationSelector(to *v1alpha1.PodProtectorSpec, from *metav1.LabelSelector) bool {
	if from == nil {
		return true
	}
	counted, ok := r.selector("aggregationSelector", from)
	if !ok {
		return false
	}
	wide, err := selectors.Compile(*counted)
	if err != nil {
		return true // r.selector has compiled it
	}
	if protected, err := selectors.Compile(*to.Selector); err == nil && !wide.Includes(protected) {
		r.reject(NotPossible, "its aggregationSelector does not match all pods that its selector matches")
		return false
	}
	to.AggregationSelector = counted
	return true
}

// limitToRange copies a number, limited to the range of the protector's schema.
func (r *conversion) limitToRange(field string, value *int32, highest int32) *int32 {
	if value == nil {
		return nil
	}
	allowed := min(max(*value, 0), highest)
	if allowed != *value {
		r.warn(OutOfRange, "its %s is %d, but the range of a protector is 0 to %d: it was set to %d", field, *value, highest, allowed)
	}
	return &allowed
}

func orElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
