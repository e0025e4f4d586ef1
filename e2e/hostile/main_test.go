// Package hostile_test installs Breakwater with its charts in a core and two workers, joins the workers with breakwater join, and attacks
// it. It asserts what each attacker may and may not achieve, and prints a line for each attack: the attacker, the attempt, and the outcome.
package hostile_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// All tests of the package share these. The first release is the one in the core.
var (
	suite     = e2e.NewSuiteWith("federated", startSuite)
	installed release.Releases
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func startSuite(ctx context.Context, s *e2e.Suite) (func(), error) {
	setup := release.Setup{
		Program: s.Program(), Dir: s.Dir(), Charts: "../../charts/", Deadline: e2e.AdmissionDeadline, Scheduling: true,
		Values: map[string]any{"breakGlass": map[string]any{"restrict": true}, "anyCellSecret": true},
	}
	clusters := s.Federation().Clusters()
	var err error
	installed, err = setup.Federation(ctx, clusters[0], clusters[1:])
	return installed.Close, err
}

// attack is one attempt of an attacker. try returns the outcome, and whether the attacker may achieve it.
type attack struct {
	name string
	try  func() (outcome string, harmless bool)
}

// forbiddenAttack returns an attack that an API server must deny for lack of permissions or by a policy of the chart.
func forbiddenAttack(attempt string, try func() error) attack {
	return attack{attempt, func() (string, bool) {
		err := try()
		if err == nil {
			return "succeeded", false
		}
		return err.Error(), apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	}}
}

// runAttacks runs the attacks of an attacker, one after the other, and fails the test for each attack that is not harmless.
func runAttacks(l *e2e.Fixture, attacker string, attacks []attack) {
	l.Helper()
	for _, a := range attacks {
		outcome, harmless := a.try()
		fmt.Printf("hostile: %s | %s | %.200s\n", attacker, a.name, strings.ReplaceAll(outcome, "\n", " "))
		if !harmless {
			l.Errorf("%s: %s: %s", attacker, a.name, outcome)
		}
	}
}

// countReservations returns the number of open reservations of a protector.
func countReservations(p *v1alpha1.PodProtector) int { return quota.BudgetOf(p).Reserved }
