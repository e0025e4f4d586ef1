package scheduling

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// revision is a label of the pods of a Deployment, of which each template has a value of its own.
const revision = appsv1.DefaultDeploymentUniqueLabelKey

// Spread is what a protector asks of the scheduler of a cell: to share new pods out evenly there.
type Spread struct {
	// TopologyKey is the label of nodes whose values are the domains.
	TopologyKey string
	// MinDomains is how many of them should have pods; nil is any number.
	MinDomains *int32
	// Alone tells that the protector has no other cell. MinDomains is of all cells together: a scheduler, who sees one, would leave pods
	// without a node for domains that are elsewhere.
	Alone bool
}

// SpreadOf is what a protector asks of the scheduler of a cell; nil is nothing. No scheduler shares pods out among cells.
func SpreadOf(p *v1alpha1.PodProtector, cell string) *Spread {
	asked := p.Spec.Spread
	if asked == nil || asked.Enforcement != v1alpha1.SpreadSchedule || asked.TopologyKey == v1alpha1.TopologyKeyCell {
		return nil
	}
	alone := len(p.Status.Cells) == 1 && p.Status.Cells[0].CellID == cell
	return &Spread{TopologyKey: asked.TopologyKey, MinDomains: asked.MinDomains, Alone: alone}
}

// Spreading is what came of the spread of one protector.
type Spreading struct {
	*Protector
	Effect
}

// Spreads tells whether one of the protectors that cover an object's pods asks for something that is to be added to it. Templates stay as they
// are, so that nothing is ever rolled for a spread.
func Spreads(o *Object, protectors []Protector) bool {
	return o.isNewPod() && slices.ContainsFunc(protectors, func(p Protector) bool { return p.Spread != nil })
}

// addSpreads adds what the spreads of protectors ask for: by core cluster and name, whatever order they come in.
func (m *merging) addSpreads() []Spreading {
	if !Spreads(m.object, m.protectors) {
		return nil
	}
	var all []Spreading
	for i := range m.protectors {
		if m.protectors[i].Spread != nil {
			all = append(all, Spreading{Protector: &m.protectors[i]})
		}
	}
	slices.SortFunc(all, func(a, b Spreading) int { return cmp.Or(cmp.Compare(a.Core, b.Core), cmp.Compare(a.Name, b.Name)) })
	for i := range all {
		m.author, m.effect = all[i].Protector, &all[i].Effect
		m.addSpread(all[i].Protector)
	}
	return all
}

func (m *merging) addSpread(p *Protector) {
	honor := string(corev1.NodeInclusionPolicyHonor) // a domain whose nodes are down must not keep pods from the others
	wants := v1alpha1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: p.Spread.TopologyKey, WhenUnsatisfiable: string(corev1.DoNotSchedule),
		LabelSelector: p.Selector, NodeTaintsPolicy: &honor,
	}
	if p.Spread.Alone {
		wants.MinDomains = p.Spread.MinDomains
	}
	// The pods of a Deployment's old template go while those of the new one come: counted together, the new ones would stay where the old
	// ones were not.
	if _, ok := m.object.Labels[revision]; ok && p.Selector != nil && !selectsBy(p.Selector, revision) {
		wants.MatchLabelKeys = []v1alpha1.LabelKey{revision}
	}
	constraint, err := fieldsOf(wants)
	field := constraintField(constraint)
	switch {
	case err != nil:
		m.skip(field, nil, p.Spread.TopologyKey, "it cannot be written: "+err.Error())
	case p.Selector == nil:
		m.skip(field, nil, constraint, "it is not known which pods the protector selects in this cell")
	case m.isPlaced():
		m.skip(field, nil, constraint, "nodeName has placed the pod, so that no scheduler is asked")
	default:
		m.addConstraint(constraint)
		if !p.Spread.Alone && p.Spread.MinDomains != nil {
			m.skip(field+".minDomains", nil, *p.Spread.MinDomains, "domains are those of all cells, and a scheduler sees those of its own")
		}
	}
}
