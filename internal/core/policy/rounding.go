package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The apiserver fills these in; they count only for a Deployment that no apiserver has seen.
const (
	defaultReplicas = 1
	defaultStep     = "25%"
)

// floor is the number of pods that the Deployment controller itself keeps available through a rollout. Any other
// number would either let a storm take more than a rollout does, or make a rollout starve.
func floor(d *appsv1.Deployment) (int32, error) {
	replicas := int32(defaultReplicas)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	if recreates(d) {
		return 0, nil
	}
	unavailable, err := maxUnavailable(d.Spec.Strategy.RollingUpdate, replicas)
	if err != nil {
		return 0, err
	}
	return replicas - unavailable, nil
}

// plainStrategy is that of workloads whose rollouts nobody can tell us about: as Deployments have it by default.
func plainStrategy(replicas int32) Strategy {
	// A quarter can be taken of every number.
	unavailable, _ := maxUnavailable(nil, replicas)
	return Strategy{MinAvailable: replicas - unavailable, MaxUnavailable: intstr.FromString(defaultStep)}
}

// largestStep is what a rollout of a Deployment may take at once, as it says itself.
func largestStep(d *appsv1.Deployment) intstr.IntOrString {
	rolling := d.Spec.Strategy.RollingUpdate
	switch {
	case recreates(d):
		return intstr.FromString("100%")
	case rolling != nil && rolling.MaxUnavailable != nil:
		return *rolling.MaxUnavailable
	default:
		return intstr.FromString(defaultStep)
	}
}

func recreates(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// maxUnavailable rounds as ResolveFenceposts of the Deployment controller does: surge up, unavailable down, and
// when neither leaves room for a step, one pod may be unavailable. It is at most replicas.
func maxUnavailable(rolling *appsv1.RollingUpdateDeployment, replicas int32) (int32, error) {
	surge, unavailable := intstr.FromString(defaultStep), intstr.FromString(defaultStep)
	if rolling != nil && rolling.MaxSurge != nil {
		surge = *rolling.MaxSurge
	}
	if rolling != nil && rolling.MaxUnavailable != nil {
		unavailable = *rolling.MaxUnavailable
	}
	extra, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	if err != nil {
		return 0, fmt.Errorf("spec.strategy.rollingUpdate.maxSurge: %w", err)
	}
	missing, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(replicas), false)
	if err != nil {
		return 0, fmt.Errorf("spec.strategy.rollingUpdate.maxUnavailable: %w", err)
	}
	if extra == 0 && missing == 0 {
		missing = 1
	}
	return int32(max(0, min(missing, int(replicas)))), nil
}
