package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// protector is a protector of a core cluster.
type protector struct {
	*v1alpha1.PodProtector
	core string
}

// site is a cell, with the target that its aggregator resolved for a protector; nil for a protector with a selector.
type site struct {
	cell   string
	target *v1alpha1.Target
}

// sites returns the cells in which a protector covers pods: the explained cell or, if none is named, each cell in the protector's
// status. As in the webhook, the target in the explained cell is known only if an aggregator resolved it with the protector's current
// spec.
func (p *protector) sites(explained string) (all []site) {
	counted := quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		known := explained == "" || cell.CellID == explained && cell.Aggregation.CountedSpec == counted && !cell.Aggregation.Void
		if p.Spec.TargetRef != nil && known && cell.Aggregation.Target != nil {
			all = append(all, site{cell.CellID, cell.Aggregation.Target})
		}
	}
	switch {
	case p.Spec.TargetRef != nil:
		return all
	case explained == "" && len(p.Status.Cells) > 0:
		return []site{{cell: p.Status.Cells[0].CellID}}
	}
	return []site{{cell: explained}}
}

// covering returns the protectors of core clusters that cover the pods of an object.
func (r *rules) covering(o *scheduling.Object, cores []string) (covering []scheduling.Protector, err error) {
	for i := range r.protectors {
		p := &r.protectors[i]
		if p.Namespace != o.Namespace || !slices.Contains(cores, p.core) {
			continue
		}
		for _, at := range p.sites(r.asking.cell) {
			coverage, err := selectors.CoverageOf(&p.Spec, at.target)
			if err != nil {
				return nil, fmt.Errorf("PodProtector %s/%s: mend it, or leave it out: %w", p.Namespace, p.Name, err)
			}
			if !coverage.Covers(o.Labels) {
				continue
			}
			selector, err := selectors.PodSelectorOf(&p.Spec, at.target)
			if err != nil {
				return nil, err
			}
			covering = append(covering, scheduling.Protector{
				Core: p.core, Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Selector: selector, Spread: scheduling.SpreadOf(p.PodProtector, at.cell),
			})
			break
		}
	}
	return covering, nil
}

// unknown returns notes about information that the rules need and that is missing.
func (r *rules) unknown(f *explainFlags) (notes []string) {
	if r.byLabels && f.namespaceLabels == "" && !isGiven(&f.cell) {
		notes = append(notes, "the labels of the namespaces are not known, but for "+corev1.LabelMetadataName+
			", and ClusterPodSchedulingPolicies go by them: give --namespace-labels or --cell-kubeconfig")
	}
	for i := range r.protectors {
		p := &r.protectors[i]
		if ref := p.Spec.TargetRef; ref != nil && len(p.sites(r.asking.cell)) == 0 {
			who := "no cell has"
			if r.asking.cell != "" {
				who = "cell " + r.asking.cell + " has not"
			}
			notes = append(notes, fmt.Sprintf("PodProtector %s/%s is left out: it names %s %s, and %s told in its status which pods that has",
				p.Namespace, p.Name, ref.Kind, ref.Name, who))
		}
	}
	return append(notes, r.asking.unknown()...)
}
