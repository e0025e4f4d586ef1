package scheduling

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// revisionLabel is a label of a Deployment's pods. Its value is unique to each template.
const revisionLabel = appsv1.DefaultDeploymentUniqueLabelKey

// Spread is a protector's request to the scheduler of a cell: to distribute new pods evenly over domains.
type Spread struct {
	// TopologyKey is the node label whose values are the domains.
	TopologyKey string
	// MinDomains is the minimum number of domains that should have pods. nil means no minimum.
	MinDomains *int32
	// SingleCell reports that the protector has no other cell. MinDomains applies to all cells together. A scheduler, which sees one cell,
	// would leave pods unscheduled because of domains that are in other cells.
	SingleCell bool
}

// SpreadOf returns a protector's request to the scheduler of a cell, or nil if there is none. No scheduler distributes pods over
// cells.
func SpreadOf(p *v1alpha1.PodProtector, cell string) *Spread {
	requested := p.Spec.Spread
	if requested == nil || requested.Enforcement != v1alpha1.SpreadSchedule || requested.TopologyKey == v1alpha1.TopologyKeyCell {
		return nil
	}
	singleCell := len(p.Status.Cells) == 1 && p.Status.Cells[0].CellID == cell
	return &Spread{TopologyKey: requested.TopologyKey, MinDomains: requested.MinDomains, SingleCell: singleCell}
}

// SpreadOutcome is the outcome of the spread of one protector.
type SpreadOutcome struct {
	*Protector
	Effect
}

// HasSpread reports whether one of the protectors that cover an object's pods has a spread to add. Templates stay unchanged, so that a
// spread never causes a rollout.
func HasSpread(o *Object, protectors []Protector) bool {
	return o.isNewPod() && slices.ContainsFunc(protectors, func(p Protector) bool { return p.Spread != nil })
}

// addSpreads adds the spreads of protectors, sorted by core cluster and name, regardless of the order of the input.
func (m *merger) addSpreads() []SpreadOutcome {
	if !HasSpread(m.object, m.protectors) {
		return nil
	}
	var all []SpreadOutcome
	for i := range m.protectors {
		if m.protectors[i].Spread != nil {
			all = append(all, SpreadOutcome{Protector: &m.protectors[i]})
		}
	}
	slices.SortFunc(all, func(a, b SpreadOutcome) int { return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Name, b.Name)) })
	for i := range all {
		m.source, m.effect = all[i].Protector, &all[i].Effect
		m.addSpread(all[i].Protector)
	}
	return all
}

func (m *merger) addSpread(p *Protector) {
	honor := string(corev1.NodeInclusionPolicyHonor) // a domain whose nodes are down must not keep pods from the others
	wants := v1alpha1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: p.Spread.TopologyKey, WhenUnsatisfiable: string(corev1.DoNotSchedule),
		LabelSelector: p.Selector, NodeTaintsPolicy: &honor,
	}
	if p.Spread.SingleCell {
		wants.MinDomains = p.Spread.MinDomains
	}
	// During a rollout, pods of a Deployment's old template disappear while those of the new one are created. If both were counted
	// together, the new pods would end up in the domains that the old pods were not in.
	if _, ok := m.object.Labels[revisionLabel]; ok && p.Selector != nil && !hasRequirementOn(p.Selector, revisionLabel) {
		wants.MatchLabelKeys = []v1alpha1.LabelKey{revisionLabel}
	}
	constraint, err := fieldsOf(wants)
	field := constraintField(constraint)
	switch {
	case err != nil:
		m.addSkipped(field, nil, p.Spread.TopologyKey, "it cannot be encoded: "+err.Error())
	case p.Selector == nil:
		m.addSkipped(field, nil, constraint, "the pods that the protector selects in this cell are unknown")
	case m.spec.isNodeAssigned():
		m.addSkipped(field, nil, constraint, "nodeName already assigns the pod, so no scheduler handles it")
	default:
		m.addConstraint(constraint)
		if !p.Spread.SingleCell && p.Spread.MinDomains != nil {
			m.addSkipped(field+".minDomains", nil, *p.Spread.MinDomains, "minDomains applies to the domains of all cells, and a scheduler sees only those of "+
				"its own cell")
		}
	}
}
