package scheduling_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// zoneRejectPolicy rejects pods that request another zone.
const zoneRejectPolicy = selectsWeb + "conflictPolicy: Reject\nnodeSelector: {topology.kubernetes.io/zone: b}"

func inOtherZone(pod *corev1.Pod) {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
}

func TestPodsAreCreatedWhileWebhooksAreUnreachable(t *testing.T) {
	claimAlone(t, "pods are created unchanged while all webhooks are down, and with policies while one or all run", func(l *fixture) {
		createPolicy(l, "strict", zoneRejectPolicy)
		waitForPolicies(l)
		var dead []string
		kill := func(n int) {
			l.Must(l.Breakwater.Kill(install.WebhookName(n)))
			dead = append(dead, install.WebhookName(n))
		}
		revive := func() {
			for _, webhook := range dead {
				l.Must(l.Breakwater.Restart(l.Context(), webhook))
			}
			dead = nil
		}
		defer revive()
		kill(0)
		createPods(l, here(l), "web", 2)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone b": 2})

		kill(1)
		createDeployment(l, here(l), "other", 3)
		waitForRunning(l, here(l), "other", 3)
		_, err := createPod(l, here(l), newPod("astray", "web", inOtherZone))
		l.Must(err)
		_, err = createPod(l, here(l), newPod("late", "web"))
		l.Must(err)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 1, "zone b": 2, "zone c": 1})

		revive()
		waitForPolicies(l)
		_, err = createPod(l, here(l), newPod("back", "web"))
		l.Must(err)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 1, "zone b": 3, "zone c": 1})
	})
}

func TestPodsAreCreatedWhileWebhooksHang(t *testing.T) {
	// The webhook timeout is 2 s. The API server aborts a request after 10 s here.
	claimAlone(t, "a pod is created unchanged after the webhook timeout when webhooks do not answer", func(l *fixture) {
		createPolicy(l, "strict", zoneRejectPolicy)
		waitForPolicies(l)
		waitForServiceAccount(l, here(l))
		for n := range l.Breakwater.WebhookAddresses() {
			l.Must(l.Breakwater.Freeze(install.WebhookName(n)))
			defer func() { l.Must(l.Breakwater.Thaw(install.WebhookName(n))) }()
		}
		began := time.Now()
		_, err := createPod(l, here(l), newPod("astray", "web", inOtherZone))
		l.Must(err)
		if took := time.Since(began); took < time.Second {
			l.Errorf("the pod was created after %s: no webhook was called", took)
		}
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone c": 1})
	})
}
