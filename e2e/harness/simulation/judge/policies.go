package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// Policies as the judge sees them. The policy of a namespace is the only reason for some of what protects a Deployment: for the fields that its rule
// sets, and for the whole protector if the Deployment has no label that requests one. When a cascade deletes the policy, with its namespace or with its
// owner, only a confirmation lets a protector become weaker than the last rule, or end although its Deployment still asks for protection. When a user
// deletes it, or changes its rule, each protector that becomes weaker needs a grant, like any other large decrease.

// policyHistory is the true history of the policy of a namespace, oldest first.
type policyHistory struct {
	states []policyState
	// deletionUndone is when its deletion was last undone, by a restore or because it was created again.
	deletionUndone time.Time
}

// policyState is the true state of a policy from a version on.
type policyState struct {
	version uint64
	at      time.Time
	// object is the policy as it was stored last; nil before it was stored.
	object *v1alpha1.ProtectionPolicy
	// deleted reports that it is being deleted or was deleted. cascade is when a cascade deleted it; zero if none did.
	deleted bool
	cascade time.Time
	// rule is its last rule, set at ruleSince.
	rule      v1alpha1.ProtectionRule
	ruleSince time.Time
}

// policyHistories are the histories of the policies, by core and namespace.
type policyHistories map[string]*policyHistory

// of returns the history of the policy of a protector's namespace.
func (h policyHistories) of(protector protectorKey) *policyHistory {
	key := protector.core + "/" + protector.name.Namespace
	if h[key] == nil {
		h[key] = &policyHistory{}
	}
	return h[key]
}

// current returns the state of the policy. It is deleted if there was none.
func (h *policyHistory) current() policyState {
	if len(h.states) == 0 {
		return policyState{deleted: true}
	}
	return h.states[len(h.states)-1]
}

// mayRelease reports whether protectors that exist only by the policy may be released: it is deleted, or was at a time or later, and releases them.
func (h *policyHistory) mayRelease(from time.Time) bool {
	now := h.current()
	return now.rule.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease && (now.deleted || h.deletionUndone.After(from))
}

// recordPolicy records a change of a policy.
func (d *decreaseJudge) recordPolicy(core string, p *v1alpha1.ProtectionPolicy, e *apiserver.Event) {
	key := protectorKey{core: core}
	key.name.Namespace = p.Namespace
	truth := d.policies.of(key)
	before, now := truth.current(), policyState{version: e.Version, at: time.Now(), object: p, rule: p.Spec.ProtectionRule, ruleSince: time.Now()}
	old, isOld := e.Old.(*v1alpha1.ProtectionPolicy)
	if isOld && old.Generation == p.Generation || p.DeletionTimestamp != nil {
		now.ruleSince = before.ruleSince
	}
	now.deleted = e.Type == watch.Deleted || p.DeletionTimestamp != nil
	switch {
	case now.deleted && before.deleted:
		now.cascade = before.cascade
	case now.deleted && d.evidence.isCascade(core, p):
		now.cascade = time.Now()
	case !now.deleted && before.deleted:
		truth.deletionUndone = time.Now()
	}
	d.report.trace.Add("%s: policy of %s %s, deleted %v, by a cascade %v", core, p.Namespace, e.Type, now.deleted, !now.cascade.IsZero())
	truth.states = append(truth.states, now)
}

// restore returns the histories of the policies of a core to a version.
func (h policyHistories) restore(core string, version uint64) {
	for key, truth := range h {
		if key[:min(len(key), len(core)+1)] != core+"/" {
			continue
		}
		if truth.current().deleted {
			truth.deletionUndone = time.Now()
		}
		truth.states = slices.DeleteFunc(truth.states, func(state policyState) bool { return state.version > version })
	}
}

// cascadeProblem returns why the decrease of a protector needs a confirmation because of the policy, or "". after is nil if the protector ends. The
// process that wrote it has acted on the state since from.
func (d *decreaseJudge) cascadeProblem(key protectorKey, before, after *v1alpha1.PodProtector, from time.Time) string {
	policy, source := d.policies.of(key).current(), d.sources.of(key).current()
	switch {
	case policy.cascade.IsZero() || source.released || source.vanished || source.object == nil || source.object.GetLabels()[scenario.PolicyLabel] == "":
		return ""
	case after == nil && source.object.GetLabels()[v1alpha1.LabelProtect] == "":
		return "whose policy was deleted by a cascade, while its Deployment exists"
	case after == nil || policy.ruleSince.After(from):
		return "" // it may be the decrease of an earlier rule
	}
	wasWeaker := weakerThanRule(before, &policy.rule)
	for _, field := range weakerThanRule(after, &policy.rule) {
		if !slices.Contains(wasWeaker, field) {
			return "whose policy was deleted by a cascade and sets " + field
		}
	}
	return ""
}

// weakerThanRule returns the fields in which a protector is weaker than a rule.
func weakerThanRule(p *v1alpha1.PodProtector, rule *v1alpha1.ProtectionRule) (weaker []string) {
	for _, o := range rule.Operations {
		if !slices.Contains(guardedOperations(p), o) {
			weaker = append(weaker, "operation "+string(o))
		}
	}
	if rule.MinReadySeconds != nil && p.Spec.MinReadySeconds < *rule.MinReadySeconds {
		weaker = append(weaker, "minReadySeconds")
	}
	if rule.Spread != nil && rule.Spread.TolerateDomainLoss && toleratedKey(p) != rule.Spread.TopologyKey {
		weaker = append(weaker, "spread")
	}
	if tuning := rule.AdmissionHistory; tuning != nil && tuning.UpdateTimeoutSeconds != nil && updateTimeoutOf(p) < *tuning.UpdateTimeoutSeconds {
		weaker = append(weaker, "admissionHistory.updateTimeoutSeconds")
	}
	return weaker
}

// describeWeakerFields describes how a change of the spec makes a protector weaker, apart from its floor, or returns "". This is an independent
// implementation, not the code under test.
func describeWeakerFields(from, to *v1alpha1.PodProtector) string {
	for _, o := range guardedOperations(from) {
		if !slices.Contains(guardedOperations(to), o) {
			return fmt.Sprintf("no longer guards the operation %s", o)
		}
	}
	guardsUpdates := slices.Contains(guardedOperations(from), v1alpha1.OperationUpdate)
	switch {
	case to.Spec.MinReadySeconds < from.Spec.MinReadySeconds:
		return fmt.Sprintf("lowers minReadySeconds from %d to %d", from.Spec.MinReadySeconds, to.Spec.MinReadySeconds)
	case toleratedKey(from) != "" && toleratedKey(from) != toleratedKey(to):
		return "no longer tolerates the loss of a domain"
	case guardsUpdates && updateTimeoutOf(to) < updateTimeoutOf(from):
		return fmt.Sprintf("lowers updateTimeoutSeconds from %d to %d", updateTimeoutOf(from), updateTimeoutOf(to))
	case from.Spec.TargetRemovalPolicy != v1alpha1.TargetRemovalRelease && to.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease:
		return "sets targetRemovalPolicy to Release"
	}
	return ""
}

// guardedOperations returns the operations that consume budget.
func guardedOperations(p *v1alpha1.PodProtector) []v1alpha1.Operation {
	if len(p.Spec.Operations) == 0 {
		return []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationRelabel}
	}
	return p.Spec.Operations
}

// toleratedKey returns the topology key of the domains whose loss a protector tolerates; "" if there are none.
func toleratedKey(p *v1alpha1.PodProtector) string {
	if p.Spec.Spread == nil || !p.Spec.Spread.TolerateDomainLoss {
		return ""
	}
	return p.Spec.Spread.TopologyKey
}

func updateTimeoutOf(p *v1alpha1.PodProtector) int32 {
	if seconds := p.Spec.AdmissionHistory.UpdateTimeoutSeconds; seconds != nil {
		return *seconds
	}
	return 600
}

// isHeldByPolicy reports whether a decrease may be held as a cascade, because a cascade deleted the policy of the protector or seemed to when a
// generator saw it.
func (d *decreaseJudge) isHeldByPolicy(key protectorKey, p *v1alpha1.PodProtector) bool {
	c := pendingOf(p)
	if c == nil || c.Reason != v1alpha1.ReasonCascade {
		return false
	}
	policy := d.policies.of(key).current()
	return !policy.cascade.IsZero() || policy.deleted &&
		(d.evidence.terminating[key.core+"/"+key.name.Namespace] || policy.object != nil && d.evidence.isCascade(key.core, policy.object))
}

// isRetained reports whether a protector stays in force by the last rule of a policy that was deleted or no longer selects its Deployment. A policy that
// does not release its protectors always retains them, unless the label of the Deployment takes its place. Any policy does if the generator may not have
// seen its deletion: a restore undid what the generator recorded, or the policy did not wait for its protectors any longer.
func (d *decreaseJudge) isRetained(key protectorKey, p *v1alpha1.PodProtector, isLabeled bool) bool {
	retained := []string{v1alpha1.ReasonPolicyDeleted, v1alpha1.ReasonPolicyLeft, v1alpha1.ReasonPolicyVanished}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	if c == nil || !slices.Contains(retained, c.Reason) || pendingOf(p) != nil {
		return false
	}
	policy := d.policies.of(key).current()
	if !isLabeled && policy.rule.TargetRemovalPolicy != v1alpha1.TargetRemovalRelease {
		return true
	}
	return policy.deleted && (!d.grants.historyOf(key.core).restoredAt.IsZero() || time.Since(policy.at) > maxPolicyWait)
}

// maxPolicyWait is how long the deletion of a policy waits for its protectors.
const maxPolicyWait = 5 * time.Minute
