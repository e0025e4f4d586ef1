package scheduling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Result is what becomes of an object.
type Result struct {
	// Patch is a JSON patch (RFC 6902) of the object as it was sent, which touches nothing but what policies add; nil changes nothing.
	Patch []byte
	// Outcomes are those of the policies, in their order.
	Outcomes []Outcome
	// Spreads are what came of the spreads of protectors, in their order.
	Spreads []Spreading
	// Refusal tells why the object must not be stored, and what to do; empty when it may. A refused object has no patch.
	Refusal string
}

// Outcome is what came of one policy.
type Outcome struct {
	*Policy
	Effect
}

// Effect is what came of a policy, or of the spread of a protector.
type Effect struct {
	// Injected are the fields below the pod's spec that it has added to, each once.
	Injected []string
	// Conflicts are what the object contradicts it in.
	Conflicts []Clash
	// Skipped is what it cannot add to an object of this kind, or without a protector. That is nobody's fault, and never refused.
	Skipped []Clash
}

// Clash is what was not added to an object.
type Clash struct {
	// Field is below the pod's spec.
	Field string
	// Has is what the object has there, and Wants what was to be added, as JSON; long values are cut.
	Has, Wants string
	// Why it was not added.
	Why string
}

// String is the clash in words.
func (c Clash) String() string {
	return fmt.Sprintf("%s: has %s, wanted is %s: %s", c.Field, c.Has, c.Wants, c.Why)
}

// Merge adds policies to an object, in the order that they are given in: those of Set.For. The protectors are those that cover its pods; what
// their spreads ask for is added after all policies.
//
// What the object has stays, and what contradicts it is not added. To merge the result again changes nothing, also when somebody else has
// changed it in between, beyond adding to that as well.
func Merge(o *Object, policies []*Policy, protectors []Protector) (Result, error) {
	result := Result{Outcomes: make([]Outcome, len(policies))}
	m := merging{object: o, spec: ownSpec(o.spec), protectors: protectors, claims: map[string]fmt.Stringer{}}
	for i, p := range policies {
		result.Outcomes[i].Policy = p
	}
	// What a later policy adds can make room for an earlier one: it drops terms of which there would have been too many. So all are asked
	// again until nothing changes, which is once for each of them at most: what was added stays.
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

// merging is a pod's spec to which policies are added.
type merging struct {
	object     *Object
	spec       map[string]any
	protectors []Protector
	// claims are the policies and protectors that fields are by.
	claims map[string]fmt.Stringer
	// changes is how often something was added.
	changes int

	// author is what is being added, a *Policy or a *Protector, and effect what comes of it.
	author fmt.Stringer
	effect *Effect
}

// ownSpec copies the objects of a spec that policies are added to. What is in their lists is shared, and never changed.
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

// pass adds all policies once, and tells whether another pass could add more.
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

// add adds one policy: what the scheduler heeds before nodeName, which goes around it.
func (m *merging) add(policy *Policy) {
	criteria := policy.criteria
	m.addSchedulerName(text(criteria["schedulerName"]))
	m.addNodeSelector(fields(criteria["nodeSelector"]))
	m.addAffinity(fields(criteria["affinity"]))
	m.addTolerations(items(criteria["tolerations"]))
	m.addConstraints(policy, items(criteria["topologySpreadConstraints"]))
	m.addNodeName(text(criteria["nodeName"]))
}

// injected notes that the author has added to a field.
func (m *merging) injected(field string) {
	m.changes++
	if !slices.Contains(m.effect.Injected, field) {
		m.effect.Injected = append(m.effect.Injected, field)
	}
}

// claim notes that a field is by the author.
func (m *merging) claim(field string) { m.claims[field] = m.author }

// The reasons that several fields have.
const (
	ownValue    = "it keeps its own"
	ofDaemonSet = "a pod of a DaemonSet has its node already, which may not meet it"
	isPlaced    = "nodeName has placed the pod, and a kubelet refuses pods whose labels of nodes its node does not have"
)

// conflict notes that the object contradicts the author in a field.
func (m *merging) conflict(field string, has, wants any, why string) {
	if by := m.claims[field]; by != nil && by != m.author {
		why = by.String() + " goes first, and has set it"
	}
	m.effect.Conflicts = append(m.effect.Conflicts, Clash{Field: field, Has: quote(has), Wants: quote(wants), Why: why})
}

// skip notes that a field cannot be added to.
func (m *merging) skip(field string, has, wants any, why string) {
	m.effect.Skipped = append(m.effect.Skipped, Clash{Field: field, Has: quote(has), Wants: quote(wants), Why: why})
}

// isDaemonPod tells that the pod has been given its node by a DaemonSet's controller. That heeds node labels that the template asks for, and
// no more.
func (m *merging) isDaemonPod() bool { return m.object.daemon && m.object.isPod() }

// maxTold is how many conflicts a refusal tells of.
const maxTold = 5

// refusal is the message for an object that contradicts a policy which rejects such; empty if there is none.
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
