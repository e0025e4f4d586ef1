package scheduling

import (
	"fmt"
	"slices"
	"strings"
)

// Result is the result for an object.
type Result struct {
	// Patch is a JSON patch (RFC 6902) for the object in the request. It changes only what policies and spreads add. It is nil if
	// nothing changes.
	Patch []byte
	// Outcomes are the outcomes of the policies, in their order.
	Outcomes []Outcome
	// Spreads are the outcomes of the spreads of protectors, in their order.
	Spreads []SpreadOutcome
	// Denial explains why the object must not be stored, and gives the remedy. It is empty if the object may be stored. A refused
	// object has no patch.
	Denial string
}

// Outcome is the outcome of one policy.
type Outcome struct {
	*Policy
	Effect
}

// Effect is the effect of a policy, or of the spread of a protector.
type Effect struct {
	// Injected are the changed fields below the pod's spec, each once.
	Injected []string
	// Conflicts are the parts that contradict the object.
	Conflicts []Omission
	// Skipped are the parts that do not apply to an object of this kind, or that need a protector. They are never a reason to deny the
	// object.
	Skipped []Omission
}

// Omission is a part that was not added to an object.
type Omission struct {
	// Field is a field below the pod's spec.
	Field string
	// Has is the object's value of the field, and Wants the value to add, as JSON. Long values are truncated.
	Has, Wants string
	// Reason is the reason why it was not added.
	Reason string
}

// String formats the omission for messages.
func (o Omission) String() string {
	return fmt.Sprintf("%s: has %s, want %s: %s", o.Field, o.Has, o.Wants, o.Reason)
}

// Merge adds policies to an object, in the given order, which must be that of Set.For. The protectors are those that cover the
// object's pods. Merge adds their spreads after all policies.
//
// Merge never changes or removes what the object has, and does not add what contradicts it. Merging the result again changes nothing.
// If another client has changed the object in between, it only adds to that change.
func Merge(o *Object, policies []*Policy, protectors []Protector) (Result, error) {
	result := Result{Outcomes: make([]Outcome, len(policies))}
	m := merger{object: o, spec: copySpec(o.spec), protectors: protectors, setBy: map[string]fmt.Stringer{}}
	for i, p := range policies {
		result.Outcomes[i].Policy = p
	}
	// A later policy can remove the obstacle to an earlier one: it drops terms, of which there would have been too many. So repeat the
	// passes until nothing changes. That takes at most one pass per policy, because additions are never removed.
	for range len(policies) + 1 {
		if more := m.addAll(result.Outcomes); !more {
			break
		}
	}
	result.Spreads = m.addSpreads()
	if result.Denial = denialMessage(o, result.Outcomes); result.Denial != "" || m.changes == 0 {
		return result, nil
	}
	var err error
	result.Patch, err = createPatch(o.path, o.spec, m.spec)
	return result, err
}

// merger adds policies and spreads to the spec of a pod.
type merger struct {
	object     *Object
	spec       specFields
	protectors []Protector
	// setBy records which policy or protector has set a field.
	setBy map[string]fmt.Stringer
	// changes is the number of additions.
	changes int

	// source is the source of the current addition, a *Policy or a *Protector, and effect is its effect.
	source fmt.Stringer
	effect *Effect
}

// addAll adds all policies once, and reports whether another pass could add more.
func (m *merger) addAll(outcomes []Outcome) (more bool) {
	hasConflict, changes := false, m.changes
	for i := range outcomes {
		m.source, m.effect = outcomes[i].Policy, &outcomes[i].Effect
		m.effect.Conflicts, m.effect.Skipped = nil, nil
		m.addPolicy(outcomes[i].Policy)
		hasConflict = hasConflict || len(m.effect.Conflicts) > 0
	}
	return hasConflict && m.changes > changes
}

// addPolicy adds one policy. Fields that the scheduler considers come before nodeName, which bypasses it.
func (m *merger) addPolicy(policy *Policy) {
	criteria := policy.criteria
	m.addSchedulerName(text(criteria["schedulerName"]))
	m.addNodeSelector(fields(criteria["nodeSelector"]))
	m.addAffinity(fields(criteria["affinity"]))
	m.addTolerations(items(criteria["tolerations"]))
	m.addConstraints(policy, items(criteria["topologySpreadConstraints"]))
	m.addNodeName(text(criteria["nodeName"]))
}

// recordInjected records that the source has added to a field.
func (m *merger) recordInjected(field string) {
	m.changes++
	if !slices.Contains(m.effect.Injected, field) {
		m.effect.Injected = append(m.effect.Injected, field)
	}
}

// recordSetter records that the source has set a field.
func (m *merger) recordSetter(field string) { m.setBy[field] = m.source }

// Reasons that several fields share.
const (
	reasonOwnValue     = "the object keeps its own value"
	reasonDaemonSet    = "the DaemonSet controller has already chosen the node of the pod, which may not satisfy it"
	reasonNodeAssigned = "nodeName already assigns the pod, and the kubelet rejects a pod that requires labels which the node lacks"
)

// addConflict records that the object contradicts the source in a field.
func (m *merger) addConflict(field string, has, wants any, reason string) {
	if setter := m.setBy[field]; setter != nil && setter != m.source {
		reason = setter.String() + " takes precedence and has set it"
	}
	m.effect.Conflicts = append(m.effect.Conflicts, Omission{Field: field, Has: quote(has), Wants: quote(wants), Reason: reason})
}

// addSkipped records that a field does not apply.
func (m *merger) addSkipped(field string, has, wants any, reason string) {
	m.effect.Skipped = append(m.effect.Skipped, Omission{Field: field, Has: quote(has), Wants: quote(wants), Reason: reason})
}

// isDaemonPod reports whether the DaemonSet controller has already assigned the pod a node. It considers only the node labels that
// the template requires.
func (m *merger) isDaemonPod() bool { return m.object.daemon && m.object.isPod() }

// maxListedConflicts is the maximum number of conflicts that a denial lists.
const maxListedConflicts = 5

// denialMessage returns the message for an object that contradicts a policy with conflictPolicy Reject. It is empty if there is none.
func denialMessage(o *Object, outcomes []Outcome) string {
	var messages []string
	more := 0
	for _, outcome := range outcomes {
		if !outcome.rejectsConflicts() {
			continue
		}
		for _, c := range outcome.Conflicts {
			if len(messages) == maxListedConflicts {
				more++
				continue
			}
			messages = append(messages, fmt.Sprintf("%s of /%s contradicts %s: the object has %s, the policy sets %s (%s)",
				c.Field, strings.Join(o.path, "/"), outcome.Policy, c.Has, c.Wants, c.Reason))
		}
	}
	if len(messages) == 0 {
		return ""
	}
	if more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ") + ". Remove the field from the " + o.Kind +
		" or set it to the value of the policy; or set conflictPolicy of the policy to KeepExisting, or exclude the pods from its selectors."
}
