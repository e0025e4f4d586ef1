package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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
	minAvailable, err := floor(d)
	if err != nil {
		return nil, err
	}
	w := Workload{
		Selector:        selector,
		Replicas:        wantedReplicas(d.Spec.Replicas),
		MinReadySeconds: d.Spec.MinReadySeconds,
		Strategy:        Strategy{MinAvailable: minAvailable, MaxUnavailable: maxStep(d)},
	}
	if isRecreate(d) {
		w.Strategy.Reason = v1alpha1.ReasonRecreateStrategy
		w.Strategy.Message = "has the strategy Recreate: a rollout removes all its pods at once, " +
			"so the floor is 0 and no removal is denied. Set the strategy RollingUpdate to keep its pods available."
	}
	return []Workload{w}, nil
}

// wantedReplicas applies the API server's default.
func wantedReplicas(replicas *int32) *int32 {
	wanted := int32(defaultReplicas)
	if replicas != nil {
		wanted = *replicas
	}
	return &wanted
}
