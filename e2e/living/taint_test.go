package living_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// The taint eviction controller tries to delete each pod five times within 50 ms, and then gives up. It does not report that it stopped.
func TestTaintEvictionsAreRetried(t *testing.T) {
	claim(t, "pods stay on a node with a NoExecute taint without budget, and are evicted one by one once it exists, without retries of the controller", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		k := startFloorWatch(l, 4, 4)
		taintNoExecute(l, node)
		waitForControllerGivingUp(l)
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		waitForPodsOnNode(l, node, 0)
		l.WaitForSummary(e2e.AllAvailable(5))
	})
}

// A client that retried without end would keep budget reserved without any effect.
func TestPodDisruptionBudgetOnTaintedNode(t *testing.T) {
	claim(t, "reservations are released when a PodDisruptionBudget keeps the pods of a tainted node, whose controller stopped retrying", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		k := startFloorWatch(l, 4, 4)
		taintNoExecute(l, node)
		waitForControllerGivingUp(l)
		k.expectNoRemoval()
		createForbiddingBudget(l)
		k.lowerFloor(2) // Breakwater retries the evictions, and the PodDisruptionBudget denies them after their reservation
		l.Eventually(func() string {
			if got := l.GetProtector().Status.Summary; got.EstimatedAvailable == 4 {
				return fmt.Sprintf("nothing is reserved: %+v", got)
			}
			return ""
		})
		l.WaitForSummary(e2e.AllAvailable(4))
		l.Must(l.DeletePod(elsewhere(l), l.ExistingPods(elsewhere(l))[0].Name))
		l.WaitForSummary(e2e.AllAvailable(4))
	})
}

// waitForControllerGivingUp waits until the controller has stopped retrying both pods of a node.
func waitForControllerGivingUp(l *fixture) {
	l.Helper()
	waitForLog(l, federation.ControllerManager, 2, "timed worker failed")
}

// waitForLog waits until a component of the cell here has logged the given number of denials with a text. Some components report denials only in
// their log.
func waitForLog(l *fixture, component federation.Component, times int, text string) {
	l.Helper()
	log := filepath.Join(l.Federation().Dir(), "clusters", here(l).Name, "logs", string(component)+".log")
	l.Eventually(func() string {
		raw, err := os.ReadFile(log)
		l.Must(err)
		output := 0
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, text) && strings.Contains(line, "PodProtector "+l.Namespace+"/web") {
				output++
			}
		}
		if output < times {
			return fmt.Sprintf("%s has logged %q %d times, want %d", component, text, output, times)
		}
		return ""
	})
}
