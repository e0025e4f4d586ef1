package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// These are the API server's defaults. They matter only for a Deployment that no API server has defaulted.
const (
	defaultReplicas       = 1
	defaultMaxUnavailable = "25%"
)

// floor returns the number of pods that the Deployment controller itself keeps available through a rollout. A lower number would let
// a storm take more pods than a rollout does, and a higher one would make rollouts starve.
func floor(d *appsv1.Deployment) (int32, error) {
	replicas := int32(defaultReplicas)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	if isRecreate(d) {
		return 0, nil
	}
	unavailable, err := maxUnavailable(d.Spec.Strategy.RollingUpdate, replicas)
	if err != nil {
		return 0, err
	}
	return replicas - unavailable, nil
}

// defaultStrategy returns the strategy for workloads whose rollouts are unknown: the default strategy of Deployments.
func defaultStrategy(replicas int32) Strategy {
	// A percentage can be taken of every number, so there is no error.
	unavailable, _ := maxUnavailable(nil, replicas)
	return Strategy{MinAvailable: replicas - unavailable, MaxUnavailable: intstr.FromString(defaultMaxUnavailable)}
}

// maxStep returns the number of pods, or the percentage, that a rollout of a Deployment may make unavailable at once.
func maxStep(d *appsv1.Deployment) intstr.IntOrString {
	rolling := d.Spec.Strategy.RollingUpdate
	switch {
	case isRecreate(d):
		return intstr.FromString("100%")
	case rolling != nil && rolling.MaxUnavailable != nil:
		return *rolling.MaxUnavailable
	default:
		return intstr.FromString(defaultMaxUnavailable)
	}
}

func isRecreate(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// maxUnavailable rounds as ResolveFenceposts of the Deployment controller does: surge up, unavailable down. If both are 0, one pod
// may be unavailable. The result is at most replicas.
func maxUnavailable(rolling *appsv1.RollingUpdateDeployment, replicas int32) (int32, error) {
	surge, unavailable := intstr.FromString(defaultMaxUnavailable), intstr.FromString(defaultMaxUnavailable)
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
