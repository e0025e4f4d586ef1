package kind_test

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Pods and floor of storms on pods that nobody replaces: the judgement is exact.
const (
	pods  = 40
	floor = 25
)

// eachFloor is the same floor in each core.
func (s *site) eachFloor(floor int) []int {
	var floors []int
	for range s.Cores {
		floors = append(floors, floor)
	}
	return floors
}

func calm(s *site) {
	e2e.Tempest{Pods: pods, Floors: s.eachFloor(floor), Exhausts: true}.Rage(s.lab)
}

func frozenCore(s *site) {
	core := s.cluster(s.Core.Name)
	e2e.Tempest{
		Pods: pods, Floors: s.eachFloor(floor), Lasts: true,
		During: func(l *lab, gale *storm.Storm) {
			began, before := time.Now(), gale.Counts()
			l.Must(core.Freeze(federation.APIServer))
			l.AwaitRequests(gale, 40)
			l.Must(core.Thaw(federation.APIServer))
			l.Logf("FIGURE the apiserver of the core was frozen for %s, answers meanwhile: %+v", since(began), minus(gale.Counts(), before))
			l.AwaitRequests(gale, 100)
		},
	}.Rage(s.lab)
}

func pausedNode(s *site) {
	paused, goes := s.cluster(s.Cells[1].Name), s.Cells[0]
	node := paused.Nodes()[0]
	e2e.Tempest{
		Pods: pods, Floors: s.eachFloor(floor), Lasts: true,
		During: func(l *lab, gale *storm.Storm) {
			began := time.Now()
			l.Must(paused.Pause(l.Context(), node))
			for range 30 {
				if err := s.tryRemove(goes); err != nil && storm.OutcomeOf(err) == storm.Failed {
					l.Errorf("cell %s is held up by cell %s: %v", goes.Name, paused.Name(), err)
				}
			}
			l.Must(paused.Unpause(l.Context(), node))
			l.Logf("FIGURE node %s was paused for %s; 30 removals elsewhere were answered meanwhile", node, since(began))
			l.AwaitRequests(gale, 100)
		},
	}.Rage(s.lab)
}

// webhookRollout and chartUpgrade strike where pods are replaced, so that there is budget all the time, and somebody to use it.

func webhookRollout(s *site) {
	s.churn(func(gale *storm.Storm) {
		began, before := time.Now(), gale.Counts()
		for _, worker := range s.kind.Workers() {
			call(s.Context(), s, "kubectl", worker, "-n", namespace, "rollout", "restart", "deployment/"+full+"-webhook")
		}
		for _, worker := range s.kind.Workers() {
			call(s.Context(), s, "kubectl", worker, "-n", namespace, "rollout", "status", "deployment/"+full+"-webhook", timeout)
		}
		s.Logf("FIGURE the webhooks were rolled out within %s, answers meanwhile: %+v", since(began), minus(gale.Counts(), before))
	})
}

func chartUpgrade(s *site) {
	s.churn(func(gale *storm.Storm) {
		began, before := time.Now(), gale.Counts()
		s.releases.upgrade(s)
		s.Logf("FIGURE the charts were upgraded within %s, answers meanwhile: %+v", since(began), minus(gale.Counts(), before))
	})
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }

func minus(all, before storm.Counts) storm.Counts {
	return storm.Counts{
		Attempted: all.Attempted - before.Attempted, Admitted: all.Admitted - before.Admitted, Refused: all.Refused - before.Refused,
		Missed: all.Missed - before.Missed, Failed: all.Failed - before.Failed,
	}
}
