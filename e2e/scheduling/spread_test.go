package scheduling_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestReplicasAreSpreadOverZones(t *testing.T) {
	claim(t, "9 replicas are 3 in each of three zones, of which the scheduler would avoid two", func(l *lab) {
		policy(l, "spread", ofWeb+`topologySpreadConstraints: [
			{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]`)
		awaitHeeded(l)
		deploy(l, here(l), "web", 9)
		deploy(l, here(l), "other", 9)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		wantPlaces(l, here(l), "other", byZone, map[string]int{"zone a": 9})
	})
}

func TestAPolicyForProtectors(t *testing.T) {
	claim(t, "pods are spread that a protector with the label covers, by its own selector, and others are not", func(l *lab) {
		policy(l, "gold", `protectorSelector: {matchLabels: {tier: gold}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]`)
		protect(l, "web", "gold")
		protect(l, "other", "silver")
		awaitHeeded(l)
		awaitAnswers(l, newPod("probe", "web"), "topologySpreadConstraints")
		deploy(l, here(l), "web", 9)
		deploy(l, here(l), "other", 3)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		wantPlaces(l, here(l), "other", byZone, map[string]int{"zone a": 3})
		for _, pod := range landed(l, here(l), "web", 9) {
			got := pod.Spec.TopologySpreadConstraints
			if len(got) != 1 || got[0].LabelSelector == nil || got[0].LabelSelector.MatchLabels["app"] != "web" {
				l.Errorf("pod %s has the constraints %+v, want the protector's selector in one", pod.Name, got)
			}
		}
	})
}

// protect makes a protector of an application, which allows all removals.
func protect(l *lab, of, tier string) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: of, Labels: map[string]string{"tier": tier}}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: app(of)}
	p.Spec.MinAvailable = v1alpha1.Pods(0)
	l.Must(l.Core.Create(l.Context(), p))
}
