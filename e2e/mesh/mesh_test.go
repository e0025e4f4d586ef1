// Package mesh_test tests Breakwater with several cores over several workers.
package mesh_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var mesh = e2e.NewSuite("mesh", nil)

func TestMain(m *testing.M) { os.Exit(mesh.Main(m)) }

func TestAStormUnderTheProtectorsOfTwoCores(t *testing.T) {
	// The stricter one is the last that is asked, so each of its refusals makes the other give back.
	mesh.Claim(t, "both floors hold, the stricter one to the pod, and no core loses budget", func(l *e2e.Lab) {
		e2e.Tempest{Pods: 60, Floors: []int{25, 40}, Exhausts: true}.Rage(l)
	})
}
