// Package single_test tests Breakwater in one cluster that is core and worker.
package single_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var single = e2e.NewSuite("single", nil)

func TestMain(m *testing.M) { os.Exit(single.Main(m)) }

func TestAStormInAClusterThatProtectsItself(t *testing.T) {
	single.Claim(t, "the floor holds to the pod, and the whole budget is used", func(l *e2e.Lab) {
		e2e.Tempest{Pods: 60, Floors: []int{40}, Exhausts: true}.Rage(l)
	})
}
