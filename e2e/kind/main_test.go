// Package kind_test installs Breakwater by its charts, as users do, into kind clusters, and plays storms on it there: with real
// kubelets, schedulers, Services and rollouts. It takes minutes and needs docker; make e2e-kind runs it.
package kind_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
)

type lab = e2e.Lab

func TestFederated(t *testing.T) {
	s := bringUp(t, "federated", kind.Need(t))
	s.claim("the floor holds to the pod in good weather, and the whole budget is used", calm)
	s.claim("the floor holds while the apiserver of the core is frozen", frozenCore)
	s.claim("a paused node holds up its own cluster and no other", pausedNode)
	s.claim("the floor holds while the webhook of each worker is rolled out", webhookRollout)
	s.claim("the floor holds while Deployments are rolled out, and the rollouts come to their ends", rollingUpdate)
	s.claim("a drained node keeps the floor, and gives its pods when another cell has more", func(s *site) { drained(s, growElsewhere) })
	s.claim("the floor holds while the charts are upgraded to another version", chartUpgrade)
}

func TestSingle(t *testing.T) {
	s := bringUp(t, "single", kind.Need(t))
	s.claim("the floor holds to the pod in good weather, and the whole budget is used", calm)
	s.claim("the floor holds while the webhook is rolled out", webhookRollout)
	s.claim("the floor holds while Deployments are rolled out, and the rollouts come to their ends", rollingUpdate)
	s.claim("a drained node keeps the floor, and gives its pods when it is uncordoned", func(s *site) { drained(s, uncordon) })
	s.claim("the floor holds while the charts are upgraded to another version", chartUpgrade)
}
