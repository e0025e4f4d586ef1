package policy

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// ReplicationControllers is the interpreter for ReplicationControllers.
type ReplicationControllers struct{}

// Interpret implements Interpreter.
func (ReplicationControllers) Interpret(source Source) ([]Workload, error) {
	c, ok := source.Object.(*corev1.ReplicationController)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want a ReplicationController", source.Object)
	}
	labels := c.Spec.Selector
	if len(labels) == 0 && c.Spec.Template != nil {
		labels = c.Spec.Template.Labels // the API server defaults the selector to these labels
	}
	if len(labels) == 0 {
		return nil, errors.New("spec.selector is missing")
	}
	replicas := wantedReplicas(c.Spec.Replicas)
	return []Workload{{
		Selector: v1alpha1.PodSelector{MatchLabels: maps.Clone(labels)}, Replicas: replicas,
		MinReadySeconds: c.Spec.MinReadySeconds, Strategy: defaultStrategy(*replicas),
	}}, nil
}
