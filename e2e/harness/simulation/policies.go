package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
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

// policyName is the name of each policy. policyLabel is the label of the Deployments that it selects.
const (
	policyName  = "rule"
	policyLabel = "rule"
)

func (p PolicyPlan) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: policyName}
}

// labels returns the labels by which a Deployment asks for protection.
func (p SourcePlan) labels() map[string]string {
	labels := map[string]string{}
	if p.By != ByPolicy {
		maps.Copy(labels, protectLabel())
	}
	if p.By != ByLabel {
		labels[policyLabel] = "true"
	}
	return labels
}

// asksForProtection reports whether a Deployment asks for protection by its label, or by the label that policies select.
func asksForProtection(d client.Object) bool {
	return d.GetLabels()[v1alpha1.LabelProtect] != "" || d.GetLabels()[policyLabel] != ""
}

// The fields that a rule sets. Each of them makes protectors stronger than without it.
const (
	ruleUpdates = 1 << iota
	ruleReadiness
	ruleSpread
	ruleTimeout
	// ruleOperations sets operations without Update, unless ruleUpdates is set.
	ruleOperations
	wholeRule = ruleUpdates | ruleReadiness | ruleSpread | ruleTimeout
)

// ruleOf returns the rule that sets the given fields.
func (p PolicyPlan) ruleOf(set int) v1alpha1.ProtectionRule {
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
	for _, space := range []string{namespace, deletableNamespace} {
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
			At: randomTime(r), What: SetRule, Who: r.IntN(2), N: []int{0, r.IntN(wholeRule + 1), ruleOperations | r.IntN(wholeRule+1), wholeRule}[r.IntN(4)],
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

// addPolicySteps adds the steps that change policies.
func (ss *sources) addPolicySteps(steps stepTable) {
	steps.add(func(s Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.setRule(plan, s.N)
		}
	}, SetRule)
	steps.add(func(s Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.delete(apiserver.Policies, plan.key())
		}
	}, DeletePolicy)
	steps.add(func(s Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.delete("applications", types.NamespacedName{Namespace: plan.Namespace, Name: plan.Owner})
		}
	}, DeletePolicyOwner)
	steps.add(func(Step) {
		for _, plan := range ss.env.scenario.Brake.Policies {
			ss.createPolicy(plan)
		}
	}, CreatePolicies)
}

func (ss *sources) setRule(p PolicyPlan, set int) {
	ss.updateObject(apiserver.Policies, p.key(), func(o client.Object) {
		if stored, ok := o.(*v1alpha1.ProtectionPolicy); ok {
			stored.Spec.ProtectionRule = p.ruleOf(set)
			stored.Generation++
		}
	})
}

// createPolicy creates a policy in its namespace, with its owner, unless the policy exists.
func (ss *sources) createPolicy(p PolicyPlan, finalizers ...string) {
	store := ss.env.cores[0].store
	if space, err := store.Get(apiserver.Namespaces, types.NamespacedName{Name: p.Namespace}); err != nil || space.GetDeletionTimestamp() != nil {
		return // no API server creates an object there
	}
	if _, err := store.Get(apiserver.Policies, p.key()); err == nil {
		return
	}
	created := &v1alpha1.ProtectionPolicy{}
	created.Namespace, created.Name, created.Finalizers = p.Namespace, policyName, finalizers
	created.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	created.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{policyLabel: "true"}}
	created.Spec.ProtectionRule = p.ruleOf(wholeRule)
	if p.Owner != "" {
		created.OwnerReferences = append(created.OwnerReferences, ss.ensureOwner(p.Namespace, p.Owner))
	}
	_, _ = store.Create(apiserver.Policies, created, user)
}

// createPolicyOf creates the policy of a namespace if it does not exist.
func (ss *sources) createPolicyOf(space string, finalizers ...string) {
	at := slices.IndexFunc(ss.env.scenario.Brake.Policies, func(p PolicyPlan) bool { return p.Namespace == space })
	if at >= 0 {
		ss.createPolicy(ss.env.scenario.Brake.Policies[at], finalizers...)
	}
}
