package aggregator_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// docs/concepts/overview.md: only a workload that "alone is deleted" is released by targetRemovalPolicy. A CRD is lost together with all its objects.
func TestTargetOfDeletedKindIsNotReleasedByPolicy(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createPod("web-0", true)
	definition, ship := l.createOfNewKind("ships", "Ship")
	l.eventually(func() string {
		return text(l.client.Status().Patch(t.Context(), ship, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"selector":"app=web"}}`))))
	})
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		setTarget("targets.test/v1", "Ship", "web")(spec)
		spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	})
	l.run("a")
	l.wantTarget(v1alpha1.ReasonTargetFound, "Ship web")
	l.wantFloor(1, 4)
	l.erase(definition)
	if target := l.wantTarget(v1alpha1.ReasonTargetGone, "stay protected"); target == nil || target.Replicas != 4 {
		t.Errorf("target %+v", target)
	}
	l.wantFloor(1, 4)
}
