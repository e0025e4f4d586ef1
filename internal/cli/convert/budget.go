package convert

import (
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const budgetKind = "PodDisruptionBudget"

// v1beta1EmptySelectorKey is the label key with which policy/v1 represents the empty selector of policy/v1beta1: the selector requires its presence,
// and no pod has it.
const v1beta1EmptySelectorKey = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// spec converts the spec of a budget.
func (c *conversion) spec(from policyv1.PodDisruptionBudgetSpec) (to v1alpha1.PodProtectorSpec, ok bool) {
	if from.MinAvailable != nil && from.MaxUnavailable != nil {
		c.reject(Malformed, "it has both minAvailable and maxUnavailable, which Kubernetes rejects")
		return to, false
	}
	if to.Selector, ok = c.selector(from.Selector); !ok {
		return to, false
	}
	if from.MinAvailable == nil && from.MaxUnavailable == nil {
		from.MaxUnavailable = new(intstr.FromInt32(0))
		c.warn(NothingToSpare, "it has neither minAvailable nor maxUnavailable, so that Kubernetes denies every eviction; "+
			"the protector does the same with maxUnavailable 0")
	}
	if !c.copyFloor(&to, from.MinAvailable, from.MaxUnavailable) {
		return to, false
	}
	// Kubernetes never guarded relabels. Operators that move the label of the primary could otherwise not switch over at the floor.
	to.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
	if keys := movingLabels(to.Selector); len(keys) > 0 {
		c.warn(LabelsMove, "it selects pods by labels that controllers usually move between living pods (%s): like Kubernetes, the protector does not deny "+
			"such a change; do not add Relabel to its operations, which would deny a switchover at the floor", strings.Join(keys, ", "))
	}
	c.warn(EvictionsOnly, "Kubernetes applies it only to evictions; the protector also denies deletions, including those of rollouts and scale-downs, "+
		"unless its operations are [Evict]")
	c.warn(OneCluster, "it counts the pods of its own cluster; the protector counts the pods of all cells together, and its floor is for all of them")
	if policy := from.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		c.warn(UnhealthyPods, "Kubernetes evicts running pods that are not ready only while enough other pods are (unhealthyPodEvictionPolicy IfHealthyBudget); "+
			"a protector always allows their removal")
	}
	return to, true
}

// Limits of v1alpha1.PodSelector. The cost of CEL rules in CRDs depends on the size of their input, so that it must be bounded.
// Selectors of budgets are not bounded.
const (
	maxMatchLabels      = 64
	maxMatchExpressions = 64
	maxValues           = 1000
)

// selector converts the selector of the protected pods. If it would be rejected, or if no pod can match it, the budget is not converted: a
// protector must not cover other pods.
func (c *conversion) selector(from *metav1.LabelSelector) (*v1alpha1.PodSelector, bool) {
	if from == nil {
		c.reject(ProtectsNothing, "it has no selector, so that it protects nothing")
		return nil, false
	}
	for i, expression := range from.MatchExpressions {
		if expression.Key == v1beta1EmptySelectorKey && expression.Operator == metav1.LabelSelectorOpExists {
			c.reject(ProtectsNothing, "its selector is the empty one of policy/v1beta1, which matches no pod, so that it protects nothing")
			return nil, false
		}
		if n := len(expression.Values); n > maxValues {
			c.reject(NotPossible, "its selector.matchExpressions[%d] has %d values, but the maximum is %d", i, n, maxValues)
			return nil, false
		}
	}
	to := v1alpha1.PodSelectorOf(from)
	compiled, err := selectors.Compile(*to)
	switch {
	case len(to.MatchLabels) > maxMatchLabels:
		c.reject(NotPossible, "its selector has %d matchLabels, but the maximum is %d", len(to.MatchLabels), maxMatchLabels)
		return nil, false
	case len(to.MatchExpressions) > maxMatchExpressions:
		c.reject(NotPossible, "its selector has %d matchExpressions, but the maximum is %d", len(to.MatchExpressions), maxMatchExpressions)
		return nil, false
	case err != nil:
		c.reject(Malformed, "its selector is malformed: %s", oneLine(err))
		return nil, false
	case !compiled.CanMatch():
		c.reject(ProtectsNothing, "no pod can match its selector")
		return nil, false
	}
	return to, true
}

// copyFloor copies minAvailable or maxUnavailable, of which exactly one is set. Kubernetes and Breakwater round percentages in the same way.
func (c *conversion) copyFloor(spec *v1alpha1.PodProtectorSpec, minAvailable, maxUnavailable *intstr.IntOrString) bool {
	var ok bool
	if minAvailable != nil {
		if spec.MinAvailable, ok = c.podCount("minAvailable", minAvailable); !ok {
			return false
		}
		if spec.MinAvailable.String() == "100%" {
			c.warnNothingToSpare("minAvailable 100%")
		}
	}
	if maxUnavailable != nil {
		if spec.MaxUnavailable, ok = c.podCount("maxUnavailable", maxUnavailable); !ok {
			return false
		}
		if amount := spec.MaxUnavailable.String(); amount == "0" || amount == "0%" {
			c.warnNothingToSpare("maxUnavailable " + amount)
		}
	}
	if quota.NeedsExpected(spec) {
		c.warn(PercentageBase, "its floor is derived from the replicas of its pods' workloads in all cells together; if these are unknown, "+
			"every removal is denied until spec.expectedReplicas is set")
	}
	return true
}

func (c *conversion) warnNothingToSpare(amount string) {
	c.warn(NothingToSpare, "%s leaves no budget: no available pod may be removed while only the expected number is available, "+
		"so that a rollout needs a surge", amount)
}

// podCount converts a number of pods or a percentage to the form that a PodProtector uses.
func (c *conversion) podCount(field string, given *intstr.IntOrString) (*intstr.IntOrString, bool) {
	if given.Type == intstr.Int {
		if given.IntVal < 0 {
			c.reject(Malformed, "its %s %d is below 0", field, given.IntVal)
		}
		return v1alpha1.Pods(given.IntVal), given.IntVal >= 0
	}
	digits, isPercentage := strings.CutSuffix(given.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !isPercentage || percent > 100 {
		c.reject(Malformed, "its %s %q is neither a number nor a percentage from 0%% to 100%%", field, given.StrVal)
		return nil, false
	}
	amount := intstr.FromString(strconv.FormatUint(percent, 10) + "%")
	return &amount, true
}
