package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// Deployments is the interpreter for Deployments.
type Deployments struct{}

// Interpret implements Interpreter.
func (Deployments) Interpret(source Source) ([]Workload, error) {
	d, ok := source.Object.(*appsv1.Deployment)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want a Deployment", source.Object)
	}
	selector, err := podSelector(d.Spec.Selector)
	if err != nil {
		return nil, err
	}
	strategy, err := deploymentStrategy(d)
	if err != nil {
		return nil, err
	}
	return []Workload{{
		Selector:        selector,
		Replicas:        wantedReplicas(d.Spec.Replicas),
		MinReadySeconds: d.Spec.MinReadySeconds,
		Strategy:        strategy,
	}}, nil
}

func deploymentStrategy(d *appsv1.Deployment) (Strategy, error) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return recreateStrategy(), nil
	}
	minAvailable, err := floor(d)
	if err != nil {
		return Strategy{}, err
	}
	return Strategy{MinAvailable: minAvailable, MaxUnavailable: maxStep(d)}, nil
}

// wantedReplicas applies the API server's default.
func wantedReplicas(replicas *int32) *int32 {
	wanted := int32(defaultReplicas)
	if replicas != nil {
		wanted = *replicas
	}
	return &wanted
}
