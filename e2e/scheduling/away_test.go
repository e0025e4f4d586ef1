package scheduling_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// strict refuses a pod that asks for another zone.
const strict = ofWeb + "conflictPolicy: Reject\nnodeSelector: {topology.kubernetes.io/zone: b}"

func astray(pod *corev1.Pod) {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
}

func TestPodsAreMadeWhileWebhooksAreAway(t *testing.T) {
	claimAlone(t, "pods are created as they are while all webhooks are dead, by one while it lives, and by policies when they are back", func(l *lab) {
		policy(l, "strict", strict)
		awaitHeeded(l)
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
		run(l, here(l), "web", 2)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone b": 2})

		kill(1)
		deploy(l, here(l), "other", 3)
		landed(l, here(l), "other", 3)
		_, err := create(l, here(l), newPod("astray", "web", astray))
		l.Must(err)
		_, err = create(l, here(l), newPod("late", "web"))
		l.Must(err)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 1, "zone b": 2, "zone c": 1})

		revive()
		awaitHeeded(l)
		_, err = create(l, here(l), newPod("back", "web"))
		l.Must(err)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 1, "zone b": 3, "zone c": 1})
	})
}

func TestPodsAreMadeWhileWebhooksHang(t *testing.T) {
	// The configuration waits 2 s for an answer. The apiserver gives the request up after 10 s here.
	claimAlone(t, "a pod is created as it is after the time that the apiserver waits, when webhooks do not answer", func(l *lab) {
		policy(l, "strict", strict)
		awaitHeeded(l)
		awaitAccount(l, here(l))
		for n := range l.Breakwater.WebhookAddresses() {
			l.Must(l.Breakwater.Freeze(install.WebhookName(n)))
			defer func() { l.Must(l.Breakwater.Thaw(install.WebhookName(n))) }()
		}
		began := time.Now()
		_, err := create(l, here(l), newPod("astray", "web", astray))
		l.Must(err)
		if took := time.Since(began); took < time.Second {
			l.Errorf("the pod was created after %s: nobody was asked", took)
		}
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone c": 1})
	})
}
