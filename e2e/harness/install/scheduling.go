package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// placementLabel is a label that no node has. A pod with this node selector proves that scheduling policies are applied.
const placementLabel = "breakwater-canary/placed"

// createSchedulingCanary creates a policy that matches only pods in dry runs.
func (i *Installation) createSchedulingCanary(ctx context.Context) error {
	if !i.options.Scheduling {
		return nil
	}
	policy := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: canary, Name: canary}}
	policy.Spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{placementLabel: "true"}}
	policy.Spec.NodeSelector = v1alpha1.NodeLabels{placementLabel: "true"}
	return i.createInCores(ctx, policy)
}

// awaitScheduling returns when the API server of a cell has created a pod (in a dry run) with the changes of a policy.
func (i *Installation) awaitScheduling(ctx context.Context, cell storm.Cell) error {
	if !i.options.Scheduling {
		return nil
	}
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: canary + "-placed", Labels: map[string]string{placementLabel: "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: storm.Image}}},
	}
	var last error
	err := wait.PollUntilContextCancel(ctx, canaryInterval, true, func(ctx context.Context) (bool, error) {
		stored, err := cell.Client.CoreV1().Pods(canary).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		last = err
		return err == nil && stored.Spec.NodeSelector[placementLabel] == "true", nil
	})
	if err != nil {
		return fmt.Errorf("wait until scheduling policies are applied in cell %s: %w", cell.Name, errors.Join(err, last))
	}
	return nil
}
