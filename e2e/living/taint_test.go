package living_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation"
)

// The controller asks five times for each pod, within a twentieth of a second, and never again; it tells nobody.
func TestEvictionsFromTaintedNodesAreTakenUpAgain(t *testing.T) {
	claim(t, "all pods stay on a node with a taint NoExecute while there is no budget, and leave it one by one when there is, although the controller has given up", func(l *lab) {
		node := fillNode(l)
		k := keep(l, 4, 4)
		expel(l, node)
		awaitGivenUp(l)
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 3)
		awaitOnNode(l, node, 0)
		l.AwaitSummary(e2e.AllAvailable(5))
	})
}

// Whoever asked again and again would keep the budget reserved for nothing.
func TestADisruptionBudgetOnATaintedNode(t *testing.T) {
	claim(t, "budget comes back although a PodDisruptionBudget keeps the pods of a tainted node, which their controller has given up", func(l *lab) {
		node := fillNode(l)
		k := keep(l, 4, 4)
		expel(l, node)
		awaitGivenUp(l)
		k.untouched()
		forbidEvictions(l)
		k.lower(2) // now they are asked for again, and are reserved in vain
		l.Eventually(func() string {
			if got := l.Protector().Status.Summary; got.EstimatedAvailable == 4 {
				return fmt.Sprintf("nothing is reserved: %+v", got)
			}
			return ""
		})
		l.AwaitSummary(e2e.AllAvailable(4))
		l.Must(l.Remove(elsewhere(l), l.Pods(elsewhere(l))[0].Name))
		l.AwaitSummary(e2e.AllAvailable(4))
	})
}

// awaitGivenUp waits until the controller has given up the two pods of a node, which it says in its log alone.
func awaitGivenUp(l *lab) {
	l.Helper()
	log := filepath.Join(l.Federation().Dir(), "clusters", here(l).Name, "logs", string(federation.ControllerManager)+".log")
	l.Eventually(func() string {
		raw, err := os.ReadFile(log)
		l.Must(err)
		given := 0
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, "timed worker failed") && strings.Contains(line, "PodProtector "+l.Namespace+"/web") {
				given++
			}
		}
		if given < 2 {
			return fmt.Sprintf("the controller has given up %d pods, want 2", given)
		}
		return ""
	})
}
