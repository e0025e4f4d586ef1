package demo

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

func TestSourceRequestsTheFloor(t *testing.T) {
	app := storm.Application{Namespace: "protected", Name: "web", Pods: 60}
	for _, floor := range []int{1, 40, 59} {
		protector, err := policy.FromDeployment(sourceDeployment(app, floor))
		if err != nil {
			t.Fatal(err)
		}
		if got := protector.Object.Spec.MinAvailable.IntVal; got != int32(floor) {
			t.Errorf("the generator derives a floor of %d, want %d", got, floor)
		}
		if got := protector.Object.Spec.Selector.MatchLabels; len(got) != 1 || "app="+got["app"] != app.Scope(nil).Selector {
			t.Errorf("the protector selects %v, the storm %q", got, app.Scope(nil).Selector)
		}
	}
}
