package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// These are the API server's defaults. They matter only for a Deployment that no API server has defaulted.
const (
	defaultReplicas       = 1
	defaultMaxUnavailable = "25%"
)

// floor returns the number of pods that the Deployment controller itself keeps available through a rolling update. A lower number would let
// a storm take more pods than a rollout does, and a higher one would make rollouts starve.
func floor(d *appsv1.Deployment) (int32, error) {
	replicas := int32(defaultReplicas)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
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

// recreateStrategy returns the strategy of workloads whose controller deletes all pods before it creates new ones. At any other floor the rollout
// would never end: the last removals are always denied.
func recreateStrategy() Strategy {
	return Strategy{
		MinAvailable: 0, MaxUnavailable: intstr.FromString("100%"), Reason: v1alpha1.ReasonRecreateStrategy,
		Message: "has the strategy Recreate: a rollout removes all its pods at once, " +
			"so the floor is 0 and no removal is denied. Set the strategy RollingUpdate to keep its pods available.",
	}
}

// maxStep returns the number of pods, or the percentage, that a rolling update of a Deployment may make unavailable at once.
func maxStep(d *appsv1.Deployment) intstr.IntOrString {
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		return *rolling.MaxUnavailable
	}
	return intstr.FromString(defaultMaxUnavailable)
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
