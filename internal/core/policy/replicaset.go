package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// ReplicaSets is the interpreter for ReplicaSets, which have no rollouts.
type ReplicaSets struct{}

// Interpret implements Interpreter.
func (ReplicaSets) Interpret(source Source) ([]Workload, error) {
	s, ok := source.Object.(*appsv1.ReplicaSet)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want a ReplicaSet", source.Object)
	}
	selector, err := podSelector(s.Spec.Selector)
	if err != nil {
		return nil, err
	}
	replicas := wantedReplicas(s.Spec.Replicas)
	return []Workload{{
		Selector: selector, Replicas: replicas, MinReadySeconds: s.Spec.MinReadySeconds, Strategy: defaultStrategy(*replicas),
	}}, nil
}
