package play

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// addPolicySteps adds the steps that change policies.
func (ss *sources) addPolicySteps(steps stepTable) {
	steps.add(func(s scenario.Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.setRule(plan, s.N)
		}
	}, scenario.SetRule)
	steps.add(func(s scenario.Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.delete(apiserver.Policies, plan.Key())
		}
	}, scenario.DeletePolicy)
	steps.add(func(s scenario.Step) {
		if plan, ok := pick(ss.env.scenario.Brake.Policies, s.Who); ok {
			ss.delete("applications", types.NamespacedName{Namespace: plan.Namespace, Name: plan.Owner})
		}
	}, scenario.DeletePolicyOwner)
	steps.add(func(scenario.Step) {
		for _, plan := range ss.env.scenario.Brake.Policies {
			ss.createPolicy(plan)
		}
	}, scenario.CreatePolicies)
}

func (ss *sources) setRule(p scenario.PolicyPlan, set int) {
	ss.updateObject(apiserver.Policies, p.Key(), func(o client.Object) {
		if stored, ok := o.(*v1alpha1.ProtectionPolicy); ok {
			stored.Spec.ProtectionRule = p.RuleOf(set)
			stored.Generation++
		}
	})
}

// createPolicy creates a policy in its namespace, with its owner, unless the policy exists.
func (ss *sources) createPolicy(p scenario.PolicyPlan, finalizers ...string) {
	store := ss.env.cores[0].store
	if space, err := store.Get(apiserver.Namespaces, types.NamespacedName{Name: p.Namespace}); err != nil || space.GetDeletionTimestamp() != nil {
		return // no API server creates an object there
	}
	if _, err := store.Get(apiserver.Policies, p.Key()); err == nil {
		return
	}
	created := &v1alpha1.ProtectionPolicy{}
	created.Namespace, created.Name, created.Finalizers = p.Namespace, scenario.PolicyName, finalizers
	created.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	created.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{scenario.PolicyLabel: "true"}}
	created.Spec.ProtectionRule = p.RuleOf(scenario.WholeRule)
	if p.Owner != "" {
		created.OwnerReferences = append(created.OwnerReferences, ss.ensureOwner(p.Namespace, p.Owner))
	}
	_, _ = store.Create(apiserver.Policies, created, scenario.User)
}

// createPolicyOf creates the policy of a namespace if it does not exist.
func (ss *sources) createPolicyOf(space string, finalizers ...string) {
	at := slices.IndexFunc(ss.env.scenario.Brake.Policies, func(p scenario.PolicyPlan) bool { return p.Namespace == space })
	if at >= 0 {
		ss.createPolicy(ss.env.scenario.Brake.Policies[at], finalizers...)
	}
}
