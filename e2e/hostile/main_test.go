// Package hostile_test attacks Breakwater, in a cluster that is core and worker, and asserts what each attacker may and may not achieve. It prints a line
// for each attack: the attacker, the attempt, and the outcome.
package hostile_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

var suite = e2e.NewSuite("single", nil)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// attack is one attempt of an attacker. try returns what came of it, and whether that is what the attacker may achieve.
type attack struct {
	attempt string
	try     func() (outcome string, harmless bool)
}

// play plays the attacks of an attacker, one after the other.
func play(l *e2e.Lab, attacker string, attacks []attack) {
	l.Helper()
	for _, a := range attacks {
		outcome, harmless := a.try()
		fmt.Printf("hostile: %s | %s | %s\n", attacker, a.attempt, outcome)
		if !harmless {
			l.Errorf("%s: %s: %s", attacker, a.attempt, outcome)
		}
	}
}

// reserved is the number of open reservations of the lab's protector.
func reserved(p *v1alpha1.PodProtector) int { return quota.BudgetOf(p).Reserved }
