package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

// targetsOf are the workloads that a protector names, one in each cell that has told of it; a nil one for a protector with a selector.
func targetsOf(p *v1alpha1.PodProtector) []*v1alpha1.Target {
	if p.Spec.TargetRef == nil {
		return []*v1alpha1.Target{nil}
	}
	var targets []*v1alpha1.Target
	for i := range p.Status.Cells {
		if target := p.Status.Cells[i].Aggregation.Target; target != nil {
			targets = append(targets, target)
		}
	}
	return targets
}

// covering lists the protectors that cover the pods of an object in any cell.
func (r *rules) covering(o *scheduling.Object) (covering []scheduling.Protector, err error) {
	for _, p := range r.protectors {
		if p.Namespace != o.Namespace {
			continue
		}
		for _, target := range targetsOf(p) {
			coverage, err := selectorindex.CoverageOf(&p.Spec, target)
			if err != nil {
				return nil, fmt.Errorf("PodProtector %s/%s: mend it, or leave it out: %w", p.Namespace, p.Name, err)
			}
			if !coverage.Covers(o.Labels) {
				continue
			}
			selector, err := selectorindex.PodSelectorOf(&p.Spec, target)
			if err != nil {
				return nil, err
			}
			covering = append(covering, scheduling.Protector{Core: core, Name: p.Name, Labels: p.Labels, Selector: selector})
			break
		}
	}
	return covering, nil
}

// unknown tells what the rules depend on and is not known.
func (r *rules) unknown(f *explainFlags) (notes []string) {
	if r.byLabels && f.namespaceLabels == "" && !isGiven(&f.cell) {
		notes = append(notes, "the labels of the namespaces are not known, but for "+corev1.LabelMetadataName+
			", and ClusterPodSchedulingPolicies go by them: give --namespace-labels or --cell-kubeconfig")
	}
	for _, p := range r.protectors {
		if ref := p.Spec.TargetRef; ref != nil && len(targetsOf(p)) == 0 {
			notes = append(notes, fmt.Sprintf("PodProtector %s/%s is left out: it names %s %s, and no cell has told in its status which pods that has",
				p.Namespace, p.Name, ref.Kind, ref.Name))
		}
	}
	return notes
}
