package kind_test

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Pods and floor of storms on pods that no controller replaces, so that the record can be judged exactly.
const (
	pods  = 40
	floor = 25
)

// floorPerCore returns the same floor for each core.
func (s *kindFixture) floorPerCore(floor int) []int {
	var floors []int
	for range s.Cores {
		floors = append(floors, floor)
	}
	return floors
}

func stormWithoutFaults(s *kindFixture) {
	e2e.FaultStorm{Pods: pods, FloorsByCore: s.floorPerCore(floor), ExhaustsBudget: true}.Run(s.fixture)
}

func stormWithFrozenCore(s *kindFixture) {
	core := s.cluster(s.Core.Name)
	e2e.FaultStorm{
		Pods: pods, FloorsByCore: s.floorPerCore(floor), EndsWithDuring: true,
		DuringStorm: func(l *fixture, load *storm.Storm) {
			began, before := time.Now(), load.Counts()
			l.Must(core.Freeze(federation.APIServer))
			l.WaitForRequests(load, 40)
			l.Must(core.Thaw(federation.APIServer))
			l.Logf("FIGURE the apiserver of the core was frozen for %s, answers meanwhile: %+v", roundedSince(began), subtractCounts(load.Counts(), before))
			l.WaitForRequests(load, 100)
		},
	}.Run(s.fixture)
}

func stormWithPausedNode(s *kindFixture) {
	paused, unaffected := s.cluster(s.Cells[1].Name), s.Cells[0]
	node := paused.Nodes()[0]
	e2e.FaultStorm{
		Pods: pods, FloorsByCore: s.floorPerCore(floor), EndsWithDuring: true,
		DuringStorm: func(l *fixture, load *storm.Storm) {
			began := time.Now()
			l.Must(paused.Pause(l.Context(), node))
			for range 30 {
				if err := s.dryRunRemoval(unaffected); err != nil && storm.OutcomeOf(err) == storm.Failed {
					l.Errorf("cell %s is delayed by cell %s: %v", unaffected.Name, paused.Name(), err)
				}
			}
			l.Must(paused.Unpause(l.Context(), node))
			l.Logf("FIGURE node %s was paused for %s; 30 removals elsewhere were answered meanwhile", node, roundedSince(began))
			l.WaitForRequests(load, 100)
		},
	}.Run(s.fixture)
}

// stormWithWebhookRollout and stormWithChartUpgrade run during a storm on pods that are replaced, so that budget and requests exist all the
// time.

func stormWithWebhookRollout(s *kindFixture) {
	s.runReplacementStorm(func(load *storm.Storm) {
		began, before := time.Now(), load.Counts()
		for _, worker := range s.kind.Workers() {
			e2e.RunTool(s.Context(), s, "kubectl", worker.Kubeconfig(), "-n", namespace, "rollout", "restart", "deployment/"+fullName+"-webhook")
		}
		for _, worker := range s.kind.Workers() {
			e2e.RunTool(s.Context(), s, "kubectl", worker.Kubeconfig(), "-n", namespace, "rollout", "status", "deployment/"+fullName+"-webhook", timeout)
		}
		s.Logf("FIGURE the webhooks were rolled out within %s, answers meanwhile: %+v", roundedSince(began), subtractCounts(load.Counts(), before))
	})
}

func stormWithChartUpgrade(s *kindFixture) {
	s.runReplacementStorm(func(load *storm.Storm) {
		began, before := time.Now(), load.Counts()
		s.releases.upgradeAll(s)
		s.Logf("FIGURE the charts were upgraded within %s, answers meanwhile: %+v", roundedSince(began), subtractCounts(load.Counts(), before))
	})
}

func roundedSince(began time.Time) time.Duration {
	return time.Since(began).Round(100 * time.Millisecond)
}

func subtractCounts(all, before storm.Counts) storm.Counts {
	return storm.Counts{
		Attempted: all.Attempted - before.Attempted, Admitted: all.Admitted - before.Admitted, Denied: all.Denied - before.Denied,
		Missed: all.Missed - before.Missed, Failed: all.Failed - before.Failed,
	}
}
