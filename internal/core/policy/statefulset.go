package policy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// StatefulSets is the interpreter for StatefulSets.
type StatefulSets struct{}

// Interpret implements Interpreter.
func (StatefulSets) Interpret(source Source) ([]Workload, error) {
	s, ok := source.Object.(*appsv1.StatefulSet)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want a StatefulSet", source.Object)
	}
	selector, err := podSelector(s.Spec.Selector)
	if err != nil {
		return nil, err
	}
	replicas := wantedReplicas(s.Spec.Replicas)
	strategy, err := statefulSetStrategy(s, *replicas)
	if err != nil {
		return nil, err
	}
	return []Workload{{Selector: selector, Replicas: replicas, MinReadySeconds: s.Spec.MinReadySeconds, Strategy: strategy}}, nil
}

func statefulSetStrategy(s *appsv1.StatefulSet, replicas int32) (Strategy, error) {
	if s.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType {
		return recreateStrategy(), nil
	}
	unavailable, err := rolloutStep(s, replicas)
	if err != nil {
		return Strategy{}, err
	}
	strategy := Strategy{MinAvailable: max(0, replicas-unavailable), MaxUnavailable: intstr.FromInt32(1)}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		strategy.Reason = v1alpha1.ReasonOnDeleteStrategy
		strategy.Message = "has the strategy OnDelete, which requires the user to delete its pods: the floor admits one removal at a time."
	} else if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		strategy.MaxUnavailable = *rolling.MaxUnavailable
	}
	return strategy, nil
}

// rolloutStep returns how many pods a rollout of a StatefulSet takes at once: maxUnavailable as its controller rounds it, down but
// to at least one, and never more than there are pods above the partition. The floor always leaves one pod free. Otherwise a
// partition that holds a rollout back, and OnDelete, which has no rollout, would block the drain of every node that has such a pod.
func rolloutStep(s *appsv1.StatefulSet, replicas int32) (int32, error) {
	rolling := s.Spec.UpdateStrategy.RollingUpdate
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || rolling == nil {
		return 1, nil
	}
	atOnce := 1
	if rolling.MaxUnavailable != nil {
		share, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, int(replicas), false)
		if err != nil {
			return 0, fmt.Errorf("spec.updateStrategy.rollingUpdate.maxUnavailable: %w", err)
		}
		atOnce = share
	}
	above := int64(replicas)
	if rolling.Partition != nil {
		above -= int64(*rolling.Partition)
	}
	return int32(max(1, min(int64(atOnce), above))), nil //nolint:gosec // no more than replicas
}
