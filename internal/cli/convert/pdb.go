package convert

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// emptyBeta is the label key with which policy/v1 represents the empty selector of policy/v1beta1: the selector requires its presence,
// and no pod has it.
const emptyBeta = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// disruptionBudget converts a PodDisruptionBudget of policy/v1 or policy/v1beta1, whose specs have the same fields.
func disruptionBudget(r *reading, object *unstructured.Unstructured, fields map[string]any) (v1alpha1.PodProtectorSpec, bool) {
	var to v1alpha1.PodProtectorSpec
	from, ok := decode[policyv1.PodDisruptionBudgetSpec](r, fields)
	if !ok {
		return to, false
	}
	if from.MinAvailable != nil && from.MaxUnavailable != nil {
		r.lost(Malformed, "it has both minAvailable and maxUnavailable, which Kubernetes refuses")
		return to, false
	}
	if why := selectsNothing(from.Selector, object.GroupVersionKind().Version); why != "" {
		r.lost(ProtectsNothing, "%s, so that it protects nothing", why)
		return to, false
	}
	if to.Selector, ok = r.selected(from.Selector); !ok {
		return to, false
	}

	if from.MinAvailable == nil && from.MaxUnavailable == nil {
		from.MaxUnavailable = new(intstr.FromInt32(0))
		r.differs(NothingToSpare, "it has neither minAvailable nor maxUnavailable, so that Kubernetes refuses every eviction; "+
			"the protector does so by maxUnavailable 0")
	}
	if !r.floor(&to, from.MinAvailable, from.MaxUnavailable) {
		return to, false
	}
	r.differs(EvictionsOnly, "Kubernetes asks it about evictions alone; the protector refuses deletes too, those of rollouts and scale-downs among them, "+
		"unless its operations are [Evict]")
	r.differs(OneCluster, oneCluster)
	if policy := from.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		r.differs(UnhealthyPods, "Kubernetes evicts running pods that are not ready only while enough others are (unhealthyPodEvictionPolicy IfHealthyBudget); "+
			"a protector always lets them go")
	}
	return to, true
}

const oneCluster = "it counts the pods of its own cluster; the protector counts those of all cells together, and its floor holds over all of them"

// selectsNothing says why a selector matches no pod, for the cases that Kubernetes defines. It is empty otherwise.
func selectsNothing(selector *metav1.LabelSelector, version string) string {
	switch {
	case selector == nil:
		return "it has no selector"
	case version == "v1beta1" && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0:
		return "its selector is empty, which chooses no pod in policy/v1beta1"
	}
	for _, expression := range selector.MatchExpressions {
		if expression.Key == emptyBeta && expression.Operator == metav1.LabelSelectorOpExists {
			return "its selector is the empty one of policy/v1beta1, which chooses no pod"
		}
	}
	return ""
}
