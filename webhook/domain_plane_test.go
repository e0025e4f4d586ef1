package webhook_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// inZone creates a node of a zone. It returns a change that places pods there.
func (l *fixture) inZone(zone string) func(*corev1.Pod) {
	l.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: l.namespace + "-" + zone, Labels: map[string]string{corev1.LabelTopologyZone: zone},
	}}
	l.create(node)
	l.Cleanup(func() {
		if err := l.client.Delete(context.Background(), node); err != nil {
			l.Errorf("delete node %s: %v", node.Name, err)
		}
	})
	return func(p *corev1.Pod) { p.Spec.NodeName = node.Name }
}

// With the permissions that users grant it, the webhook finds the zone of a pod, for deletions and evictions.
func TestDomainLossAllowsRemovalsInLargestZone(t *testing.T) {
	for name, remove := range removalMethods() {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 4, 10, func(s *v1alpha1.PodProtectorSpec) {
				s.Spread = &v1alpha1.Spread{TopologyKey: corev1.LabelTopologyZone, TolerateDomainLoss: true}
			})
			p := l.protector("web")
			p.Status.Cells[0].Aggregation.Spread = &v1alpha1.CellDomains{
				TopologyKey: corev1.LabelTopologyZone, Domains: []v1alpha1.DomainCount{{Name: "a", Counted: 6}, {Name: "b", Counted: 4}},
			}
			if err := l.client.Status().Update(l.Context(), p); err != nil {
				t.Fatal(err)
			}
			inA, inB := l.pod("in-a", l.inZone("a")), l.pod("in-b", l.inZone("b"))
			rights := testplane.User(l, "webhook-of-"+l.namespace, roles.Rules(l, "webhook.cell"))
			l.serve(func(s *replicaOptions) { s.cell = rights }).guard()
			wantDenied(t, remove(l, inB), `domain "a" of topology.kubernetes.io/zone`, "floor 4", "available 10")
			l.wantReserved("web", 0)
			if err := remove(l, inA); err != nil {
				t.Errorf("removal in the zone with the most pods: %v, want it admitted", err)
			}
			l.wantReserved("web", 1)
		})
	}
}
