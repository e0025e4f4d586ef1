package scheduling

import (
	"fmt"
	"maps"
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
	Spreads []Spreading
	// Refusal explains why the object must not be stored, and gives the remedy. It is empty if the object may be stored. A refused
	// object has no patch.
	Refusal string
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
	Conflicts []Clash
	// Skipped are the parts that do not apply to an object of this kind, or that need a protector. They are never a reason to deny the
	// object.
	Skipped []Clash
}

// Clash is a part that was not added to an object.
type Clash struct {
	// Field is a field below the pod's spec.
	Field string
	// Has is the object's value of the field, and Wants the value to add, as JSON. Long values are truncated.
	Has, Wants string
	// Why is the reason why it was not added.
	Why string
}

// String formats the clash for messages.
func (c Clash) String() string {
	return fmt.Sprintf("%s: has %s, wanted is %s: %s", c.Field, c.Has, c.Wants, c.Why)
}

// Merge adds policies to an object, in the given order, which must be that of Set.For. The protectors are those that cover the
// object's pods. Merge adds their spreads after all policies.
//
// Merge never changes or removes what the object has, and does not add what contradicts it. Merging the result again changes nothing.
// If another client has changed the object in between, it only adds to that change.
func Merge(o *Object, policies []*Policy, protectors []Protector) (Result, error) {
	result := Result{Outcomes: make([]Outcome, len(policies))}
	m := merging{object: o, spec: ownSpec(o.spec), protectors: protectors, claims: map[string]fmt.Stringer{}}
	for i, p := range policies {
		result.Outcomes[i].Policy = p
	}
	// A later policy can remove the obstacle to an earlier one: it drops terms, of which there would have been too many. So repeat the
	// passes until nothing changes. That takes at most one pass per policy, because additions are never removed.
	for range len(policies) + 1 {
		if again := m.pass(result.Outcomes); !again {
			break
		}
	}
	result.Spreads = m.addSpreads()
	if result.Refusal = refusal(o, result.Outcomes); result.Refusal != "" || m.changes == 0 {
		return result, nil
	}
	var err error
	result.Patch, err = patch(o.path, o.spec, m.spec)
	return result, err
}

// merging is the spec of a pod while policies are added to it.
type merging struct {
	object     *Object
	spec       map[string]any
	protectors []Protector
	// claims records which policy or protector has set a field.
	claims map[string]fmt.Stringer
	// changes is the number of additions.
	changes int

	// author is the source of the current addition, a *Policy or a *Protector, and effect is its effect.
	author fmt.Stringer
	effect *Effect
}

// ownSpec copies the parts of a spec that are modified. The contents of lists are shared, and never modified.
func ownSpec(of map[string]any) map[string]any {
	spec := maps.Clone(of)
	own := func(in map[string]any, field string) map[string]any {
		if has := fields(in[field]); has != nil {
			in[field] = maps.Clone(has)
		}
		return fields(in[field])
	}
	own(spec, "nodeSelector")
	affinity := own(spec, "affinity")
	own(affinity, "podAffinity")
	own(affinity, "podAntiAffinity")
	own(own(affinity, "nodeAffinity"), required)
	return spec
}

// pass adds all policies once, and reports whether another pass could add more.
func (m *merging) pass(outcomes []Outcome) (again bool) {
	clashed, changes := false, m.changes
	for i := range outcomes {
		m.author, m.effect = outcomes[i].Policy, &outcomes[i].Effect
		m.effect.Conflicts, m.effect.Skipped = nil, nil
		m.add(outcomes[i].Policy)
		clashed = clashed || len(m.effect.Conflicts) > 0
	}
	return clashed && m.changes > changes
}

// add adds one policy. Fields that the scheduler considers come before nodeName, which bypasses it.
func (m *merging) add(policy *Policy) {
	criteria := policy.criteria
	m.addSchedulerName(text(criteria["schedulerName"]))
	m.addNodeSelector(fields(criteria["nodeSelector"]))
	m.addAffinity(fields(criteria["affinity"]))
	m.addTolerations(items(criteria["tolerations"]))
	m.addConstraints(policy, items(criteria["topologySpreadConstraints"]))
	m.addNodeName(text(criteria["nodeName"]))
}

// injected records that the author has added to a field.
func (m *merging) injected(field string) {
	m.changes++
	if !slices.Contains(m.effect.Injected, field) {
		m.effect.Injected = append(m.effect.Injected, field)
	}
}

// claim records that the author has set a field.
func (m *merging) claim(field string) { m.claims[field] = m.author }

// Reasons that several fields share.
const (
	ownValue    = "it keeps its own"
	ofDaemonSet = "a pod of a DaemonSet has its node already, which may not meet it"
	isPlaced    = "nodeName has placed the pod, and a kubelet refuses pods whose labels of nodes its node does not have"
)

// conflict records that the object contradicts the author in a field.
func (m *merging) conflict(field string, has, wants any, why string) {
	if by := m.claims[field]; by != nil && by != m.author {
		why = by.String() + " goes first, and has set it"
	}
	m.effect.Conflicts = append(m.effect.Conflicts, Clash{Field: field, Has: quote(has), Wants: quote(wants), Why: why})
}

// skip records that a field does not apply.
func (m *merging) skip(field string, has, wants any, why string) {
	m.effect.Skipped = append(m.effect.Skipped, Clash{Field: field, Has: quote(has), Wants: quote(wants), Why: why})
}

// isDaemonPod reports whether the DaemonSet controller has already assigned the pod a node. It considers only the node labels that
// the template requires.
func (m *merging) isDaemonPod() bool { return m.object.daemon && m.object.isPod() }

// maxTold is the maximum number of conflicts that a denial lists.
const maxTold = 5

// refusal returns the message for an object that contradicts a policy with conflictPolicy Reject. It is empty if there is none.
func refusal(o *Object, outcomes []Outcome) string {
	var told []string
	more := 0
	for _, outcome := range outcomes {
		if !outcome.rejects() {
			continue
		}
		for _, c := range outcome.Conflicts {
			if len(told) == maxTold {
				more++
				continue
			}
			told = append(told, fmt.Sprintf("%s of /%s contradicts %s: it has %s and the policy %s (%s)",
				c.Field, strings.Join(o.path, "/"), outcome.Policy, c.Has, c.Wants, c.Why))
		}
	}
	if len(told) == 0 {
		return ""
	}
	if more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(told, "; ") + ". Take the field out of the " + o.Kind +
		" or give it the policy's value; or set conflictPolicy of the policy to KeepExisting, or choose other pods with its selectors."
}
