package scheduling_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// waitForSpreadStatus waits until the protector has the given condition SpreadSatisfied and spread status.
func waitForSpreadStatus(l *fixture, status metav1.ConditionStatus, reason, fragment string, want v1alpha1.SpreadStatus) {
	l.Helper()
	l.Eventually(func() string {
		p := l.GetProtector()
		condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
		if condition == nil || condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, fragment) || condition.ObservedGeneration != p.Generation {
			return fmt.Sprintf("SpreadSatisfied is %+v, want %s, %s, %q", condition, status, reason, fragment)
		}
		if diff := cmp.Diff(&want, p.Status.Spread); diff != "" {
			return "status.spread (-want +got):\n" + diff
		}
		return ""
	})
}

// waitForEvent waits for an event of an object in the core. Breakwater emits one when the state changes, not when only numbers change.
func waitForEvent(l *fixture, of, kind, reason, fragment string) {
	l.Helper()
	l.Eventually(func() string {
		events := &corev1.EventList{}
		l.Must(l.Core.List(l.Context(), events, client.InNamespace(l.Namespace)))
		var got []string
		for _, e := range events.Items {
			if e.Type == kind && e.Reason == reason && e.InvolvedObject.Name == of && strings.Contains(e.Message, fragment) {
				return ""
			}
			got = append(got, fmt.Sprintf("%s %s of %s: %s", e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
		}
		return fmt.Sprintf("no event %s %s of %s with %q among %q", kind, reason, of, fragment, got)
	})
}

func TestMaxShareOfZone(t *testing.T) {
	claim(t, "a protector reports that one zone of two cells has too many pods until others have enough; it denies no removal for that", func(l *fixture) {
		l.CreateProtector(1, spreadBy(zoneSpread(maxShare(50))))
		createPodsInZones(l, here(l), podsByDomain{"a": 3})
		createPodsInZones(l, elsewhere(l), podsByDomain{"a": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 1, Largest: "a", LargestCounted: 5, LargestSharePercent: 100}
		waitForSpreadStatus(l, metav1.ConditionFalse, v1alpha1.ReasonShareTooLarge, `"a" has 5 of 5 pods (100%), and maxSharePercent 50 allows 3`, zone)
		waitForEvent(l, "web", corev1.EventTypeWarning, v1alpha1.ReasonShareTooLarge, `(100%), and maxSharePercent 50 allows`)
		if p := l.GetProtector(); !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
			l.Errorf("the protector with all pods in one zone is not Ready: %+v", p.Status.Conditions)
		}

		createPodsInZones(l, here(l), podsByDomain{"b": 2})
		createPodsInZones(l, elsewhere(l), podsByDomain{"c": 2, "b": 1})
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 3, 50, 5
		waitForSpreadStatus(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, `10 pods in 3 domains; "a" has the most, 5 (50%).`, zone)
		waitForEvent(l, "web", corev1.EventTypeNormal, v1alpha1.ConditionSpreadSatisfied, `"a" has the most`)

		l.Must(l.DeletePod(elsewhere(l), anyPodInZone(l, elsewhere(l), "c")))
		removeFromZone(l, l.DeletePod, elsewhere(l), "c")
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 2, 63, 3
		waitForSpreadStatus(l, metav1.ConditionFalse, v1alpha1.ReasonShareTooLarge, `"a" has 5 of 8 pods`, zone)
	})
}

func TestMinDomains(t *testing.T) {
	claim(t, "zones of the same name in two cells are one domain, 3 in all; cells are 2 domains", func(l *fixture) {
		l.CreateProtector(1, spreadBy(zoneSpread(overDomains(3))))
		createPodsInZones(l, here(l), podsByDomain{"a": 2, "b": 1})
		createPodsInZones(l, elsewhere(l), podsByDomain{"a": 1, "b": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 2, Largest: "a", LargestCounted: 3, LargestSharePercent: 50, AvailableAfterLoss: 3}
		waitForSpreadStatus(l, metav1.ConditionFalse, v1alpha1.ReasonTooFewDomains, "It has 6 pods in 2 domains (a, b), and minDomains requires 3", zone)
		createPodsInZones(l, elsewhere(l), podsByDomain{"c": 1})
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 3, 43, 4
		waitForSpreadStatus(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, "7 pods in 3 domains", zone)

		updateSpread(l, zoneSpread(byCell, overDomains(3)))
		cell := v1alpha1.SpreadStatus{
			TopologyKey: v1alpha1.TopologyKeyCell, Domains: 2, Largest: elsewhere(l).Name, LargestCounted: 4, LargestSharePercent: 58, AvailableAfterLoss: 3,
		}
		waitForSpreadStatus(l, metav1.ConditionFalse, v1alpha1.ReasonTooFewDomains, "It has 7 pods in 2 domains (worker-1, worker-2)", cell)
		updateSpread(l, zoneSpread(byCell, overDomains(2), tolerateLoss))
		waitForSpreadStatus(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, `"worker-2" has the most, 4 (58%)`, cell)
		updateSpread(l, zoneSpread(func(s *v1alpha1.Spread) { s.TopologyKey = "e2e.breakwater.dev/nowhere" }, overDomains(2)))
		waitForSpreadStatus(l, metav1.ConditionUnknown, v1alpha1.ReasonDomainsUnknown, "lack the label e2e.breakwater.dev/nowhere",
			v1alpha1.SpreadStatus{TopologyKey: "e2e.breakwater.dev/nowhere", Unknown: 7})
		updateSpread(l, nil)
		l.Eventually(func() string {
			p := l.GetProtector()
			if told := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied); told != nil || p.Status.Spread != nil {
				return fmt.Sprintf("the protector without a spread has %+v and %+v", told, p.Status.Spread)
			}
			return ""
		})
	})
}

func TestFloorBrokenByDomainLoss(t *testing.T) {
	claim(t, "a protector reports that the floor would not survive the loss of a zone until other zones have more pods", func(l *fixture) {
		l.CreateProtector(3, spreadBy(zoneSpread(tolerateLoss)))
		createPodsInZones(l, here(l), podsByDomain{"a": 4, "b": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 2, Largest: "a", LargestCounted: 4, LargestSharePercent: 67, AvailableAfterLoss: 2}
		waitForSpreadStatus(l, metav1.ConditionFalse, v1alpha1.ReasonDomainLossBreaks, `If "a" is lost, 2 of 6 pods are left, and the floor is 3`, zone)
		createPodsInZones(l, elsewhere(l), podsByDomain{"b": 1})
		zone.LargestSharePercent, zone.AvailableAfterLoss = 58, 3
		waitForSpreadStatus(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, "", zone)
	})
}
