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

// cellTarget is a cell, with the target that its aggregator resolved for a protector; nil for a protector with a selector.
type cellTarget struct {
	cell   string
	target *v1alpha1.Target
}

// cellTargets returns the cells in which a protector covers pods: the explained cell or, if none is named, each cell in the protector's
// status. As in the webhook, the target in the explained cell is known only if an aggregator resolved it with the protector's current
// spec.
func (p *protector) cellTargets(explained string) (all []cellTarget) {
	counted := quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		known := explained == "" || cell.CellID == explained && cell.Aggregation.CountedSpec == counted && !cell.Aggregation.Void
		if p.Spec.TargetRef != nil && known && cell.Aggregation.Target != nil {
			all = append(all, cellTarget{cell.CellID, cell.Aggregation.Target})
		}
	}
	switch {
	case p.Spec.TargetRef != nil:
		return all
	case explained == "" && len(p.Status.Cells) > 0:
		return []cellTarget{{cell: p.Status.Cells[0].CellID}}
	}
	return []cellTarget{{cell: explained}}
}

// covering returns the protectors of core clusters that cover the pods of an object.
func (r *rules) covering(o *scheduling.Object, cores []string) (covering []scheduling.Protector, err error) {
	for i := range r.protectors {
		p := &r.protectors[i]
		if p.Namespace != o.Namespace || !slices.Contains(cores, p.core) {
			continue
		}
		for _, target := range p.cellTargets(r.webhooks.cell) {
			coverage, err := selectors.CoverageOf(&p.Spec, target.target)
			if err != nil {
				return nil, fmt.Errorf("PodProtector %s/%s: correct or remove the object: %w", p.Namespace, p.Name, err)
			}
			if !coverage.Covers(o.Labels) {
				continue
			}
			selector, err := selectors.PodSelectorOf(&p.Spec, target.target)
			if err != nil {
				return nil, err
			}
			covering = append(covering, scheduling.Protector{
				Core: p.core, Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Selector: selector, Spread: scheduling.SpreadOf(p.PodProtector, target.cell),
			})
			break
		}
	}
	return covering, nil
}

// missingNotes returns notes about information that the rules need and that is missing.
func (r *rules) missingNotes(f *explainFlags) (notes []string) {
	if r.byLabels && f.namespaceLabels == "" && !isSet(&f.cell) {
		notes = append(notes, "the labels of the namespaces are unknown except for "+corev1.LabelMetadataName+
			", and ClusterPodSchedulingPolicies use them: set --namespace-labels or --cell-kubeconfig")
	}
	for i := range r.protectors {
		p := &r.protectors[i]
		if ref := p.Spec.TargetRef; ref != nil && len(p.cellTargets(r.webhooks.cell)) == 0 {
			subject := "no cell has"
			if r.webhooks.cell != "" {
				subject = "cell " + r.webhooks.cell + " has not"
			}
			notes = append(notes, fmt.Sprintf("PodProtector %s/%s is left out: it names %s %s, and %s recorded in its status which pods belong to it",
				p.Namespace, p.Name, ref.Kind, ref.Name, subject))
		}
	}
	return append(notes, r.webhooks.missingNotes()...)
}
