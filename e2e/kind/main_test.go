// Package kind_test installs Breakwater with its charts into kind clusters, as users do, and runs storms on it with real kubelets,
// schedulers, Services and rollouts. It takes minutes and needs docker. Run it with make e2e BACKEND=kind.
package kind_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
)

type fixture = e2e.Fixture

func TestFederated(t *testing.T) {
	s := startKindFixture(t, "federated", kind.Require(t))
	s.claim("the floor holds exactly without faults, and the whole budget is used", stormWithoutFaults)
	s.claim("the floor holds while the API server of the core is frozen", stormWithFrozenCore)
	s.claim("a paused node delays only its own cluster", stormWithPausedNode)
	s.claim("the floor holds while the webhook of each worker is rolled out", stormWithWebhookRollout)
	s.claim("the floor holds during rollouts of Deployments, and the rollouts complete", rollingUpdate)
	s.claim("a drain keeps the floor, and completes when another cell has more pods", func(s *kindFixture) { drainAllNodes(s, addPodsElsewhere) })
	s.claim("the floor holds while the charts are upgraded to another version", stormWithChartUpgrade)
}

func TestSingle(t *testing.T) {
	s := startKindFixture(t, "single", kind.Require(t))
	s.claim("the floor holds exactly without faults, and the whole budget is used", stormWithoutFaults)
	s.claim("the floor holds while the webhook is rolled out", stormWithWebhookRollout)
	s.claim("the floor holds during rollouts of Deployments, and the rollouts complete", rollingUpdate)
	s.claim("a drain keeps the floor, and completes when the node is uncordoned", func(s *kindFixture) { drainAllNodes(s, uncordonNodes) })
	s.claim("the floor holds while the charts are upgraded to another version", stormWithChartUpgrade)
}
