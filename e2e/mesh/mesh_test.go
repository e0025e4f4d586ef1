// Package mesh_test tests Breakwater with several cores over several workers.
package mesh_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var meshSuite = e2e.NewSuite("mesh", nil)

func TestMain(m *testing.M) { os.Exit(meshSuite.Main(m)) }

func TestStormWithProtectorsOfTwoCores(t *testing.T) {
	// The stricter one is the last that is asked, so each of its refusals makes the other give back.
	meshSuite.Claim(t, "both floors hold, the stricter one exactly, and no core loses budget", func(l *e2e.Fixture) {
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{25, 40}, ExhaustsBudget: true}.Run(l)
	})
}
