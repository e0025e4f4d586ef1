package model

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// floorFrom describes in sentences how the floor is computed.
func floorFrom(p *v1alpha1.PodProtector) []string {
	spec := &p.Spec
	floor, known := quota.Floor(p)
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
		return []string{fmt.Sprintf("spec.minAvailable is %d.", floor)}
	}
	expected, expectedKnown := quota.Expected(p)
	of := "the expected pods, whose number is unknown"
	if expectedKnown {
		of = printable.Count(expected, "expected pod")
	}
	var how string
	switch {
	case spec.MinAvailable != nil:
		how = fmt.Sprintf("spec.minAvailable is %s of %s", spec.MinAvailable, of)
	case spec.MaxUnavailable != nil:
		how = fmt.Sprintf("spec.maxUnavailable is %s, of %s", spec.MaxUnavailable, of)
	default:
		return []string{"The spec has neither minAvailable nor maxUnavailable."}
	}
	if known {
		how += fmt.Sprintf(": %d must stay available", floor)
	}
	return []string{how + ".", expectedFrom(p)}
}

// expectedFrom describes the source of the expected replicas.
func expectedFrom(p *v1alpha1.PodProtector) string {
	switch {
	case p.Spec.ExpectedReplicas != nil:
		return "spec.expectedReplicas sets the number of expected pods."
	case p.Spec.TargetRef != nil:
		return fmt.Sprintf("The number of expected pods is what %s %s requests across all cells.", p.Spec.TargetRef.Kind, p.Spec.TargetRef.Name)
	default:
		return "The number of expected pods is what the workloads that own the pods request across all cells."
	}
}

func origin(p *v1alpha1.PodProtector) string {
	name, source := p.Annotations[v1alpha1.AnnotationSourceName], p.Labels[v1alpha1.LabelSourceKind]
	if name == "" {
		return "a user, manually or with another tool"
	}
	by := "the generator, for " + source + " " + name
	if policy := p.Annotations[v1alpha1.AnnotationPolicy]; policy != "" {
		return by + ", by " + policy
	}
	return by + ", because of its label " + v1alpha1.LabelProtect
}
