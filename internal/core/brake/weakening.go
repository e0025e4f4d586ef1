package brake

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Weakening is what a change of a protector's spec weakens so much that it is a large decrease.
type Weakening struct {
	// Effect describes it, as an infinitive: "lower the floor from 8 to 2 and lower minReadySeconds from 30 to 0". It is empty if the change is no large decrease.
	Effect string
	rules  []fieldRule
}

// IsLarge reports whether the change is a large decrease.
func (w Weakening) IsLarge() bool { return len(w.rules) > 0 }

// Keep gives a spec those fields of the former spec that the change weakens.
func (w Weakening) Keep(to, former *v1alpha1.PodProtectorSpec) {
	for _, r := range w.rules {
		r.keep(to, former)
	}
}

// DescribeWeakening describes how a change of a protector's spec weakens it. reference is the highest floor of the current window, or 0 if that is
// the current one.
func DescribeWeakening(before, after *v1alpha1.PodProtector, reference int) (w Weakening) {
	var effects []string
	for _, r := range fieldRules() {
		if r.weakens == nil {
			continue
		}
		if effect := r.weakens(specChange{before, after, reference}); effect != "" {
			effects, w.rules = append(effects, effect), append(w.rules, r)
		}
	}
	w.Effect = strings.Join(effects, " and ")
	return w
}

// specChange is a change of a protector's spec.
type specChange struct {
	before, after *v1alpha1.PodProtector
	reference     int
}

// fieldRule states how the brake treats changes of some fields of a protector's spec (rule 13). Each field has exactly one rule, and a row in the
// table of docs/concepts/safety.md.
type fieldRule struct {
	// fields are the paths of the fields in the spec.
	fields []string
	// weakens returns the effect of a change that is a large decrease, or "". It is nil if no change of the fields is one.
	weakens func(specChange) string
	// keep gives a spec the fields of the former one.
	keep func(to, former *v1alpha1.PodProtectorSpec)
}

// fieldRules returns the rules. A change that has several effects names them in this order.
func fieldRules() []fieldRule {
	return []fieldRule{
		{
			[]string{"minAvailable", "maxUnavailable"}, lowersFloor,
			func(to, former *v1alpha1.PodProtectorSpec) {
				to.MinAvailable, to.MaxUnavailable = former.MinAvailable, former.MaxUnavailable
			},
		},
		{
			[]string{"selector", "targetRef"}, coversOtherPods,
			func(to, former *v1alpha1.PodProtectorSpec) {
				to.Selector, to.TargetRef = former.Selector, former.TargetRef
			},
		},
		{
			[]string{"exemptPodSelector"}, exemptsOtherPods,
			func(to, former *v1alpha1.PodProtectorSpec) { to.ExemptPodSelector = former.ExemptPodSelector },
		},
		{
			[]string{"operations"}, dropsOperations,
			func(to, former *v1alpha1.PodProtectorSpec) { to.Operations = former.Operations },
		},
		{
			[]string{"criterion"}, weakensCriterion,
			func(to, former *v1alpha1.PodProtectorSpec) { to.Criterion = former.Criterion },
		},
		{
			[]string{"minReadySeconds"}, lowersMinReadySeconds,
			func(to, former *v1alpha1.PodProtectorSpec) { to.MinReadySeconds = former.MinReadySeconds },
		},
		{
			[]string{"spread.tolerateDomainLoss", "spread.topologyKey"}, endsDomainLossTolerance,
			func(to, former *v1alpha1.PodProtectorSpec) { to.Spread = former.Spread },
		},
		{
			[]string{"coreOutage"}, allowsLocalShares,
			func(to, former *v1alpha1.PodProtectorSpec) { to.CoreOutage = former.CoreOutage },
		},
		{
			[]string{"targetRemovalPolicy"}, releasesRemovedTargets,
			func(to, former *v1alpha1.PodProtectorSpec) { to.TargetRemovalPolicy = former.TargetRemovalPolicy },
		},
		{
			[]string{"admissionHistory.updateTimeoutSeconds"}, lowersUpdateTimeout,
			func(to, former *v1alpha1.PodProtectorSpec) {
				to.AdmissionHistory.UpdateTimeoutSeconds = former.AdmissionHistory.UpdateTimeoutSeconds
			},
		},
		{fields: []string{"spread.maxSharePercent", "spread.minDomains", "spread.enforcement"}},
		{fields: []string{"admissionHistory.maxConcurrentLag", "admissionHistory.compactThreshold", "admissionHistory.aggregationRateMillis"}},
		{fields: []string{"aggregationSelector", "expectedReplicas", "shareOf"}},
	}
}

func lowersFloor(c specChange) string {
	effect, large := describeLowering(c.before, c.after, c.reference)
	if !large {
		return ""
	}
	return effect
}

// coversOtherPods cannot compare selectors, so that any other one may leave out pods. The effect names the pods that the protector would cover: a grant
// permits what has the same effect.
func coversOtherPods(c specChange) string {
	from, to := &c.before.Spec, &c.after.Spec
	switch {
	case from.Selector != nil && !equality.Semantic.DeepEqual(from.Selector, to.Selector):
		return "change selector to " + coveredText(to)
	case from.TargetRef != nil && !equality.Semantic.DeepEqual(from.TargetRef, to.TargetRef):
		return "change targetRef to " + coveredText(to)
	}
	return ""
}

// coveredText returns the pods that a spec covers as text.
func coveredText(spec *v1alpha1.PodProtectorSpec) string {
	if ref := spec.TargetRef; ref != nil {
		return fmt.Sprintf("the pods of %s %s of %s", ref.Kind, ref.Name, ref.APIVersion)
	}
	return selectorText(spec.Selector)
}

// maxSelectorText limits the length of a selector in an effect, which is part of a condition.
const maxSelectorText = 100

// selectorText returns a selector as text. Different selectors have different texts, also if they are too long to show.
func selectorText(s *v1alpha1.PodSelector) string {
	text := metav1.FormatLabelSelector(s.LabelSelector())
	switch {
	case s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		return "all pods"
	case len(text) > maxSelectorText:
		return fmt.Sprintf("%s and more with SHA-256 %x", text[:maxSelectorText], sha256.Sum256([]byte(text)))
	}
	return text
}

func exemptsOtherPods(c specChange) string {
	to := c.after.Spec.ExemptPodSelector
	if to == nil || equality.Semantic.DeepEqual(c.before.Spec.ExemptPodSelector, to) {
		return ""
	}
	return "change exemptPodSelector to " + selectorText(to)
}

func dropsOperations(c specChange) string {
	from, to := guarded(c.before), guarded(c.after)
	if !slices.ContainsFunc(from, func(o v1alpha1.Operation) bool { return !slices.Contains(to, o) }) {
		return ""
	}
	return fmt.Sprintf("change operations from %v to %v", from, to)
}

// guarded returns the operations that consume budget.
func guarded(p *v1alpha1.PodProtector) []v1alpha1.Operation {
	if len(p.Spec.Operations) == 0 {
		return v1alpha1.DefaultOperations()
	}
	return p.Spec.Operations
}

func weakensCriterion(c specChange) string {
	from, to := c.before.Spec.Criterion, c.after.Spec.Criterion
	if strength(to) >= strength(from) {
		return ""
	}
	return fmt.Sprintf("change criterion from %s to %s", from, to)
}

// lowersMinReadySeconds has no threshold: unlike floors, no autoscaler lowers it all day.
func lowersMinReadySeconds(c specChange) string {
	from, to := c.before.Spec.MinReadySeconds, c.after.Spec.MinReadySeconds
	if to >= from {
		return ""
	}
	return fmt.Sprintf("lower minReadySeconds from %d to %d", from, to)
}

func endsDomainLossTolerance(c specChange) string {
	from, to := c.before.Spec.Spread, c.after.Spec.Spread
	if from == nil || !from.TolerateDomainLoss || to != nil && to.TolerateDomainLoss && to.TopologyKey == from.TopologyKey {
		return ""
	}
	effect := "no longer tolerate the loss of a domain of " + from.TopologyKey
	if to != nil && to.TolerateDomainLoss {
		effect += ", only of " + to.TopologyKey
	}
	return effect
}

func allowsLocalShares(c specChange) string {
	if c.before.Spec.CoreOutage == v1alpha1.CoreOutageLocalShare || c.after.Spec.CoreOutage != v1alpha1.CoreOutageLocalShare {
		return ""
	}
	return "change coreOutage to LocalShare"
}

func releasesRemovedTargets(c specChange) string {
	from, to := c.before.Spec.TargetRemovalPolicy, c.after.Spec.TargetRemovalPolicy
	if from == v1alpha1.TargetRemovalRelease || to != v1alpha1.TargetRemovalRelease {
		return ""
	}
	return "change targetRemovalPolicy to Release"
}

// defaultUpdateTimeout is the default of the CRD in seconds, for a protector that was created before the CRD had it.
const defaultUpdateTimeout = 600

// lowersUpdateTimeout concerns only protectors that charge updates.
func lowersUpdateTimeout(c specChange) string {
	seconds := func(p *v1alpha1.PodProtector) int32 {
		if timeout := p.Spec.AdmissionHistory.UpdateTimeoutSeconds; timeout != nil {
			return *timeout
		}
		return defaultUpdateTimeout
	}
	operations, from, to := guarded(c.before), seconds(c.before), seconds(c.after)
	if to >= from || !slices.Contains(operations, v1alpha1.OperationUpdate) && !slices.Contains(operations, v1alpha1.OperationResize) {
		return ""
	}
	return fmt.Sprintf("lower admissionHistory.updateTimeoutSeconds from %d to %d", from, to)
}

func strength(c v1alpha1.Criterion) int {
	return slices.Index([]v1alpha1.Criterion{v1alpha1.CriterionScheduled, v1alpha1.CriterionRunning, v1alpha1.CriterionReady, v1alpha1.CriterionAvailable, ""}, c)
}
