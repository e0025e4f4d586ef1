package convert

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// v1beta1EmptySelectorKey is the label key with which policy/v1 represents the empty selector of policy/v1beta1: the selector requires its presence,
// and no pod has it.
const v1beta1EmptySelectorKey = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// convertDisruptionBudget converts a PodDisruptionBudget of policy/v1 or policy/v1beta1, whose specs have the same fields.
func convertDisruptionBudget(r *conversion, object *unstructured.Unstructured, fields map[string]any) (v1alpha1.PodProtectorSpec, bool) {
	var to v1alpha1.PodProtectorSpec
	from, ok := decode[policyv1.PodDisruptionBudgetSpec](r, fields)
	if !ok {
		return to, false
	}
	if from.MinAvailable != nil && from.MaxUnavailable != nil {
		r.reject(Malformed, "it has both minAvailable and maxUnavailable, which Kubernetes rejects")
		return to, false
	}
	if why := emptySelectorReason(from.Selector, object.GroupVersionKind().Version); why != "" {
		r.reject(ProtectsNothing, "%s, so that it protects nothing", why)
		return to, false
	}
	if to.Selector, ok = r.protectedSelector(from.Selector); !ok {
		return to, false
	}

	if from.MinAvailable == nil && from.MaxUnavailable == nil {
		from.MaxUnavailable = new(intstr.FromInt32(0))
		r.warn(NothingToSpare, "it has neither minAvailable nor maxUnavailable, so that Kubernetes denies every eviction; "+
			"the protector does the same with maxUnavailable 0")
	}
	if !r.copyFloor(&to, from.MinAvailable, from.MaxUnavailable) {
		return to, false
	}
	// Kubernetes never guarded relabels. Operators that move the label of the primary could otherwise not switch over at the floor.
	to.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
	if keys := movingLabels(to.Selector); len(keys) > 0 {
		r.warn(LabelsMove, "it selects pods by labels that controllers usually move between living pods (%s): like Kubernetes, the protector does not deny "+
			"such a change; do not add Relabel to its operations, which would deny a switchover at the floor", strings.Join(keys, ", "))
	}
	r.warn(EvictionsOnly, "Kubernetes applies it only to evictions; the protector also denies deletions, including those of rollouts and scale-downs, "+
		"unless its operations are [Evict]")
	r.warn(OneCluster, oneClusterMessage)
	if policy := from.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		r.warn(UnhealthyPods, "Kubernetes evicts running pods that are not ready only while enough other pods are (unhealthyPodEvictionPolicy IfHealthyBudget); "+
			"a protector always allows their removal")
	}
	return to, true
}

const oneClusterMessage = "it counts the pods of its own cluster; the protector counts the pods of all cells together, and its floor is for all of them"

// emptySelectorReason says why a selector matches no pod, for the cases that Kubernetes defines. It is empty otherwise.
func emptySelectorReason(selector *metav1.LabelSelector, version string) string {
	switch {
	case selector == nil:
		return "it has no selector"
	case version == "v1beta1" && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0:
		return "its selector is empty, which matches no pod in policy/v1beta1"
	}
	for _, expression := range selector.MatchExpressions {
		if expression.Key == v1beta1EmptySelectorKey && expression.Operator == metav1.LabelSelectorOpExists {
			return "its selector is the empty one of policy/v1beta1, which matches no pod"
		}
	}
	return ""
}
