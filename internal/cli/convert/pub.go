package convert

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Annotations with which OpenKruise v1alpha1 expresses what are fields in v1beta1.
const (
	annotationPUBOperations = "kruise.io/pub-protect-operations"
	annotationPUBReplicas   = "pub.kruise.io/protect-total-replicas"
)

func unavailableBudgetKind() schema.GroupKind {
	return schema.GroupKind{Group: "policy.kruise.io", Kind: "PodUnavailableBudget"}
}

// unavailableBudgetSpec is the spec of a PodUnavailableBudget in all versions.
type unavailableBudgetSpec struct {
	Selector       *metav1.LabelSelector `json:"selector,omitempty"`
	TargetRef      *v1alpha1.TargetRef   `json:"targetRef,omitempty"`
	MaxUnavailable *intstr.IntOrString   `json:"maxUnavailable,omitempty"`
	MinAvailable   *intstr.IntOrString   `json:"minAvailable,omitempty"`

	ProtectOperations    []string              `json:"protectOperations,omitempty"`
	ProtectTotalReplicas *int32                `json:"protectTotalReplicas,omitempty"`
	IgnoredPodSelector   *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// PodGroupPolicy makes OpenKruise count groups of pods.
	PodGroupPolicy map[string]any `json:"podGroupPolicy,omitempty"`
}

// convertUnavailableBudget converts a PodUnavailableBudget of OpenKruise.
func convertUnavailableBudget(r *conversion, object *unstructured.Unstructured, fields map[string]any) (v1alpha1.PodProtectorSpec, bool) {
	var to v1alpha1.PodProtectorSpec
	from, ok := decode[unavailableBudgetSpec](r, fields)
	if !ok {
		return to, false
	}
	if len(from.PodGroupPolicy) > 0 {
		r.reject(NotPossible, "its podGroupPolicy counts groups of pods, but protectors count pods")
		return to, false
	}
	if !r.copyKruiseSelector(&to, &from) || !r.copyKruiseExempt(&to, &from) {
		return to, false
	}
	if to.Operations, ok = r.kruiseOperations(object, &from); !ok {
		return to, false
	}
	to.ExpectedReplicas = r.kruiseReplicas(object, &from)
	if !r.copyKruiseFloor(&to, &from) {
		return to, false
	}
	r.warn(OneCluster, oneClusterMessage)
	if to.TargetRef != nil || quota.NeedsExpected(&to) {
		r.warn(Retained, "OpenKruise allows the removal of all pods after their workload was deleted; the protector continues to protect them "+
			"unless its targetRemovalPolicy is Release")
	}
	return to, true
}

// copyKruiseSelector copies targetRef, which takes precedence over the selector, or else the selector.
func (r *conversion) copyKruiseSelector(to *v1alpha1.PodProtectorSpec, from *unavailableBudgetSpec) bool {
	switch {
	case from.TargetRef != nil:
		if from.Selector != nil {
			r.warn(Ignored, "it has both targetRef and selector; OpenKruise uses targetRef, and so does the protector")
		}
		if wrong := targetRefProblem(from.TargetRef); wrong != "" {
			r.reject(Malformed, "its targetRef %s", wrong)
			return false
		}
		to.TargetRef = from.TargetRef
		return true
	case from.Selector == nil:
		r.reject(ProtectsNothing, "it has neither selector nor targetRef, so that it protects nothing")
		return false
	case len(from.Selector.MatchLabels) == 0 && len(from.Selector.MatchExpressions) == 0:
		r.reject(Malformed, "its selector is empty, which OpenKruise rejects")
		return false
	default:
		selector, ok := r.protectedSelector(from.Selector)
		to.Selector = selector
		return ok
	}
}

// copyKruiseExempt converts the selector of pods that are always admitted. In OpenKruise an empty one matches no pod.
func (r *conversion) copyKruiseExempt(to *v1alpha1.PodProtectorSpec, from *unavailableBudgetSpec) bool {
	ignored := from.IgnoredPodSelector
	if ignored == nil || len(ignored.MatchLabels) == 0 && len(ignored.MatchExpressions) == 0 {
		return true
	}
	exempt, ok := r.selector("ignoredPodSelector", ignored)
	if !ok {
		return false
	}
	to.ExemptPodSelector = exempt
	r.warn(ExemptNotCounted, "OpenKruise counts the pods of ignoredPodSelector as available; the protector does not count exempt pods, "+
		"so that its floor needs other pods")
	return true
}

// copyKruiseFloor copies maxUnavailable, which takes precedence over minAvailable, or else minAvailable.
func (r *conversion) copyKruiseFloor(to *v1alpha1.PodProtectorSpec, from *unavailableBudgetSpec) bool {
	minAvailable := from.MinAvailable
	switch {
	case from.MaxUnavailable != nil && minAvailable != nil:
		r.warn(Ignored, "it has both maxUnavailable and minAvailable; OpenKruise uses maxUnavailable, and so does the protector")
		minAvailable = nil
	case from.MaxUnavailable == nil && minAvailable == nil:
		r.reject(ProtectsNothing, "it has neither maxUnavailable nor minAvailable, so that it protects nothing")
		return false
	}
	return r.copyFloor(to, minAvailable, from.MaxUnavailable)
}

// kruiseOperations returns the guarded operations: those of the field, else of the annotation, else all except Resize.
func (r *conversion) kruiseOperations(object *unstructured.Unstructured, from *unavailableBudgetSpec) ([]v1alpha1.Operation, bool) {
	named := from.ProtectOperations
	if annotation := object.GetAnnotations()[annotationPUBOperations]; len(named) == 0 && annotation != "" {
		named = strings.Split(annotation, ",")
	}
	if len(named) == 0 {
		named = []string{"DELETE", "EVICT", "UPDATE"}
	}
	var operations []v1alpha1.Operation
	for _, name := range named {
		switch strings.TrimSpace(name) {
		case "DELETE":
			operations = append(operations, v1alpha1.OperationDelete)
		case "EVICT":
			operations = append(operations, v1alpha1.OperationEvict)
		case "UPDATE":
			operations = append(operations, v1alpha1.OperationUpdate)
		case "RESIZE":
			operations = append(operations, v1alpha1.OperationResize)
		case "":
		default:
			r.warn(Ignored, "its operation %q is unknown and was left out", strings.TrimSpace(name))
		}
	}
	slices.Sort(operations)
	operations = slices.Compact(operations)
	if len(operations) == 0 {
		r.reject(ProtectsNothing, "it protects no known operation, so that it protects nothing")
	}
	return operations, len(operations) > 0
}

// kruiseReplicas returns the number of expected pods, from the field or else from the annotation.
func (r *conversion) kruiseReplicas(object *unstructured.Unstructured, from *unavailableBudgetSpec) *int32 {
	replicas := from.ProtectTotalReplicas
	if annotation := object.GetAnnotations()[annotationPUBReplicas]; replicas == nil && annotation != "" {
		number, err := strconv.ParseInt(annotation, 10, 32)
		if err != nil {
			r.warn(Ignored, "its annotation %s is %q, which is not a number of pods, and was left out", annotationPUBReplicas, annotation)
			return nil
		}
		replicas = new(int32(number))
	}
	if replicas != nil && *replicas < 0 {
		r.warn(Ignored, "it expects %d pods, which is invalid, and was left out", *replicas)
		return nil
	}
	return replicas
}
