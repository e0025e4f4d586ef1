package scenario

import (
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// PolicyPlan is the ProtectionPolicy of a namespace.
type PolicyPlan struct {
	Namespace string
	// Owner is the Application that owns the policy, if any.
	Owner string
	// Releases makes the policy release its protectors when it is deleted, or no longer selects their Deployments.
	Releases bool
}

// Protection is what asks for the protection of a Deployment.
type Protection string

// The protections. The label is the default.
const (
	ByLabel          Protection = ""
	ByPolicy         Protection = "policy"
	ByPolicyAndLabel Protection = "policy and label"
)

// PolicyName is the name of each policy. policyLabel is the label of the Deployments that it selects.
const (
	PolicyName  = "rule"
	PolicyLabel = "rule"
)

// Key returns the name of the policy.
func (p PolicyPlan) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: PolicyName}
}

// Labels returns the labels by which a Deployment asks for protection.
func (p SourcePlan) Labels() map[string]string {
	labels := map[string]string{}
	if p.By != ByPolicy {
		maps.Copy(labels, ProtectLabel())
	}
	if p.By != ByLabel {
		labels[PolicyLabel] = "true"
	}
	return labels
}

// AsksForProtection reports whether a Deployment asks for protection by its label, or by the label that policies select.
func AsksForProtection(d client.Object) bool {
	return d.GetLabels()[v1alpha1.LabelProtect] != "" || d.GetLabels()[PolicyLabel] != ""
}

// The fields that a rule sets. Each of them makes protectors stronger than without it.
const (
	ruleUpdates = 1 << iota
	ruleReadiness
	ruleSpread
	ruleTimeout
	// ruleOperations sets operations without Update, unless ruleUpdates is set.
	ruleOperations
	WholeRule = ruleUpdates | ruleReadiness | ruleSpread | ruleTimeout
)

// RuleOf returns the rule that sets the given fields.
func (p PolicyPlan) RuleOf(set int) v1alpha1.ProtectionRule {
	rule := v1alpha1.ProtectionRule{TargetRemovalPolicy: v1alpha1.TargetRemovalRetain}
	if p.Releases {
		rule.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	}
	if set&(ruleUpdates|ruleOperations) != 0 {
		rule.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationRelabel}
	}
	if set&ruleUpdates != 0 {
		rule.Operations = append(rule.Operations, v1alpha1.OperationUpdate)
	}
	if set&ruleReadiness != 0 {
		seconds := int32(60)
		rule.MinReadySeconds = &seconds
	}
	if set&ruleSpread != 0 {
		rule.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
	}
	if set&ruleTimeout != 0 {
		seconds := int32(60)
		rule.AdmissionHistory = &v1alpha1.AdmissionHistoryTuning{UpdateTimeoutSeconds: &seconds}
	}
	return rule
}

// policyStream is the random stream of policies. It was chosen so that it changes no seed that tests, mutants or docs name.
const policyStream = 0x706f6c6963c9a9

// drawPolicies makes policies protect some Deployments of a brake plan. They stop setting fields, which then get weaker defaults, and they are deleted:
// by users, with their owners, or with their namespaces, long before the Deployments.
func drawPolicies(s *Scenario, r *rand.Rand) {
	if len(s.Brake.Sources) == 0 || r.IntN(3) == 0 {
		return
	}
	for _, space := range []string{Namespace, DeletableNamespace} {
		plan := PolicyPlan{Namespace: space, Releases: r.IntN(3) > 0}
		if r.IntN(3) == 0 {
			plan.Owner = "policies"
		}
		s.Brake.Policies = append(s.Brake.Policies, plan)
	}
	for i := range s.Brake.Sources {
		s.Brake.Sources[i].By = []Protection{ByLabel, ByPolicy, ByPolicyAndLabel, ByPolicyAndLabel}[r.IntN(4)]
	}
	for range 1 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: SetRule, Who: r.IntN(2), N: []int{0, r.IntN(WholeRule + 1), ruleOperations | r.IntN(WholeRule+1), WholeRule}[r.IntN(4)],
		})
	}
	s.Brake.PolicyFirst = time.Duration(r.IntN(20)) * time.Second
	if r.IntN(2) == 0 {
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: DeleteNamespace})
	}
	for range r.IntN(3) {
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: []StepKind{DeletePolicy, DeletePolicyOwner, CreatePolicies}[r.IntN(3)], Who: r.IntN(2)})
	}
}
