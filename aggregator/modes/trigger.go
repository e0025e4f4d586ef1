package modes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Trigger is a pod that the aggregator changes to cause an event, when a protector of a cell in mode Clock or Status waits for one and
// nothing happens in the cell.
type Trigger struct {
	// Namespace of the pod, in the cell's cluster; empty disables the trigger.
	Namespace string
	// Every is the time between two changes.
	Every time.Duration
}

// triggerCondition is the condition that is changed. The mode Status uses the timestamps of conditions.
const triggerCondition = "breakwater.dev/update-trigger"

// UpdateTrigger changes the trigger pod of a cell.
type UpdateTrigger struct {
	Options         Trigger
	Cell            string
	Clientset       kubernetes.Interface
	EventSettlement *EventSettlement
	// labels are those of the pod, as the Cell requires them as of the last heartbeat.
	labels atomic.Pointer[map[string]string]
	Now    func() time.Time
	Log    logr.Logger
}

// Run changes the pod whenever a protector waits for an event, until ctx ends.
func (t *UpdateTrigger) Run(ctx context.Context) {
	if t.Options.Namespace == "" {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, t.Options.Every, false, func(ctx context.Context) (bool, error) { // it ends with ctx
		if t.EventSettlement.needsEvent() {
			if err := t.change(ctx); err != nil && ctx.Err() == nil {
				t.Log.Error(err, "Failed to change the update trigger", "namespace", t.Options.Namespace)
			}
		}
		return false, nil
	})
}

// change changes the trigger pod, or creates it: a user may have deleted it.
func (t *UpdateTrigger) change(ctx context.Context) error {
	pods := t.Clientset.CoreV1().Pods(t.Options.Namespace)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]any{{
		"type": triggerCondition, "status": "True", "lastTransitionTime": metav1.NewTime(t.Now()),
	}}}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, t.podName(), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := pods.Create(ctx, t.pod(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the pod: %w", err)
	}
	return nil
}

func (t *UpdateTrigger) podName() string { return "breakwater-update-trigger-" + t.Cell }

// SetSelector sets the selector of the cell's pods. It must be called before run.
func (t *UpdateTrigger) SetSelector(s *v1alpha1.PodSelector) { t.labels.Store(matchingLabels(s)) }

// matchingLabels returns labels that a selector matches, if it can construct them: the trigger of a cell that a selector defines must be one of
// its pods.
func matchingLabels(s *v1alpha1.PodSelector) *map[string]string {
	labels := map[string]string{}
	if s == nil {
		return &labels
	}
	maps.Copy(labels, s.MatchLabels)
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			labels[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists && labels[e.Key] == "":
			labels[e.Key] = "update-trigger"
		}
	}
	return &labels
}

// pod returns a pod that is never scheduled, and costs nothing but its object.
func (t *UpdateTrigger) pod() *corev1.Pod {
	noToken := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: t.podName(), Namespace: t.Options.Namespace, Labels: *t.labels.Load(),
			Annotations: map[string]string{
				policy.LabelManagedBy:  "breakwater-aggregator",
				"breakwater.dev/about": "Breakwater changes this pod to cause an event; see docs/concepts/settlement.md.",
			},
		},
		Spec: corev1.PodSpec{
			SchedulingGates:              []corev1.PodSchedulingGate{{Name: triggerCondition}},
			AutomountServiceAccountToken: &noToken,
			Containers:                   []corev1.Container{{Name: "none", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
}
