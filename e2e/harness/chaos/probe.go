package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// probe is a protector that selects no existing pod, so that its floor is never met.
const probe = "probe"

// awaitWebhookCaches returns when every webhook has received the protectors of a namespace. A webhook does not protect by a protector that it has
// not received, and that must not count against the storm that follows. A webhook that was cut off may receive one half a minute later. A
// core delivers its protectors in order, so a webhook that denies by the protector that was created last has received all.
func (s *Stage) awaitWebhookCaches(ctx context.Context, namespace string) error {
	last := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probe}}
	last.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": probe}}
	last.Spec.MinAvailable = v1alpha1.Pods(1)
	if err := s.protectors.Create(ctx, last); err != nil {
		return fmt.Errorf("create the probe's protector: %w", err)
	}
	for _, address := range s.Breakwater.WebhookAddresses() {
		if err := poll(ctx, func(ctx context.Context) error { return s.checkWebhookHasProtectors(ctx, address, namespace) }); err != nil {
			return fmt.Errorf("wait until the webhook at %s has the protectors: %w", address, err)
		}
	}
	return nil
}

// checkWebhookHasProtectors returns an error unless a webhook denies the removal of a pod of the probe.
func (s *Stage) checkWebhookHasProtectors(ctx context.Context, address, namespace string) error {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probe, UID: probe, Labels: map[string]string{"app": probe}},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	answer, err := install.ReviewRemoval(ctx, address, s.Cells[0].Name, pod)
	if err == nil && answer.Allowed {
		err = fmt.Errorf("the webhook does not deny the probe: %+v", answer)
	}
	return err
}
