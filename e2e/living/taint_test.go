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

// The controller asks five times for each pod, within a twentieth of a second, and never again; it tells nobody.
func TestEvictionsFromTaintedNodesAreTakenUpAgain(t *testing.T) {
	claim(t, "all pods stay on a node with a taint NoExecute while there is no budget, and leave it one by one when there is, although the controller has given up", func(l *lab) {
		node := fillNode(l, 2, 2)
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
		node := fillNode(l, 2, 2)
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

// awaitGivenUp waits until the controller has given up the two pods of a node.
func awaitGivenUp(l *lab) {
	l.Helper()
	awaitLogged(l, federation.ControllerManager, 2, "timed worker failed")
}

// awaitLogged waits until a component of the cell here has said in its log so many times that it was refused, and these words. Some
// say it nowhere else.
func awaitLogged(l *lab, component federation.Component, times int, words string) {
	l.Helper()
	log := filepath.Join(l.Federation().Dir(), "clusters", here(l).Name, "logs", string(component)+".log")
	l.Eventually(func() string {
		raw, err := os.ReadFile(log)
		l.Must(err)
		said := 0
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, words) && strings.Contains(line, "PodProtector "+l.Namespace+"/web") {
				said++
			}
		}
		if said < times {
			return fmt.Sprintf("%s has said %q %d times, want %d", component, words, said, times)
		}
		return ""
	})
}
