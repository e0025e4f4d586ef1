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

// awaitSpread waits until the protector says this of how its pods are shared out.
func awaitSpread(l *lab, status metav1.ConditionStatus, reason, word string, want v1alpha1.SpreadStatus) {
	l.Helper()
	l.Eventually(func() string {
		p := l.Protector()
		told := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
		if told == nil || told.Status != status || told.Reason != reason || !strings.Contains(told.Message, word) || told.ObservedGeneration != p.Generation {
			return fmt.Sprintf("SpreadSatisfied is %+v, want %s, %s, %q", told, status, reason, word)
		}
		if diff := cmp.Diff(&want, p.Status.Spread); diff != "" {
			return "status.spread (-want +got):\n" + diff
		}
		return ""
	})
}

// awaitEvent waits for one of an object of the core. They are told when what it says becomes another thing, and not when figures do.
func awaitEvent(l *lab, of, kind, reason, word string) {
	l.Helper()
	l.Eventually(func() string {
		events := &corev1.EventList{}
		l.Must(l.Core.List(l.Context(), events, client.InNamespace(l.Namespace)))
		var got []string
		for _, e := range events.Items {
			if e.Type == kind && e.Reason == reason && e.InvolvedObject.Name == of && strings.Contains(e.Message, word) {
				return ""
			}
			got = append(got, fmt.Sprintf("%s %s of %s: %s", e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
		}
		return fmt.Sprintf("no event %s %s of %s with %q among %q", kind, reason, of, word, got)
	})
}

func TestTheShareOfAZone(t *testing.T) {
	claim(t, "a protector says that one zone of two cells has too many of the pods, and that it has not when there are enough elsewhere; no removal is refused for it", func(l *lab) {
		l.Protect(1, spreadBy(zones(sharing(50))))
		place(l, here(l), layout{"a": 3})
		place(l, elsewhere(l), layout{"a": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 1, Largest: "a", LargestCounted: 5, LargestSharePercent: 100}
		awaitSpread(l, metav1.ConditionFalse, v1alpha1.ReasonShareTooLarge, `"a" has 5 of 5 pods (100%), and maxSharePercent 50 allows 3`, zone)
		awaitEvent(l, "web", corev1.EventTypeWarning, v1alpha1.ReasonShareTooLarge, `(100%), and maxSharePercent 50 allows`)
		if p := l.Protector(); !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
			l.Errorf("a protector is not ready whose pods are in one zone: %+v", p.Status.Conditions)
		}

		place(l, here(l), layout{"b": 2})
		place(l, elsewhere(l), layout{"c": 2, "b": 1})
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 3, 50, 5
		awaitSpread(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, `10 pods are in 3 domains; "a" has most, 5 (50%).`, zone)
		awaitEvent(l, "web", corev1.EventTypeNormal, v1alpha1.ConditionSpreadSatisfied, `"a" has most`)

		l.Must(l.Remove(elsewhere(l), oneIn(l, elsewhere(l), "c")))
		goes(l, l.Remove, elsewhere(l), "c")
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 2, 63, 3
		awaitSpread(l, metav1.ConditionFalse, v1alpha1.ReasonShareTooLarge, `"a" has 5 of 8 pods`, zone)
	})
}

func TestTheNumberOfDomains(t *testing.T) {
	claim(t, "zones of one name in two cells are one domain of three, and cells are two", func(l *lab) {
		l.Protect(1, spreadBy(zones(over(3))))
		place(l, here(l), layout{"a": 2, "b": 1})
		place(l, elsewhere(l), layout{"a": 1, "b": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 2, Largest: "a", LargestCounted: 3, LargestSharePercent: 50, AvailableAfterLoss: 3}
		awaitSpread(l, metav1.ConditionFalse, v1alpha1.ReasonTooFewDomains, "6 pods are in 2 domains (a, b), and minDomains asks for 3", zone)
		place(l, elsewhere(l), layout{"c": 1})
		zone.Domains, zone.LargestSharePercent, zone.AvailableAfterLoss = 3, 43, 4
		awaitSpread(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, "7 pods are in 3 domains", zone)

		respread(l, zones(byCell, over(3)))
		cell := v1alpha1.SpreadStatus{
			TopologyKey: v1alpha1.TopologyKeyCell, Domains: 2, Largest: elsewhere(l).Name, LargestCounted: 4, LargestSharePercent: 58, AvailableAfterLoss: 3,
		}
		awaitSpread(l, metav1.ConditionFalse, v1alpha1.ReasonTooFewDomains, "7 pods are in 2 domains (worker-1, worker-2)", cell)
		respread(l, zones(byCell, over(2), outliving))
		awaitSpread(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, `"worker-2" has most, 4 (58%)`, cell)
		respread(l, zones(func(s *v1alpha1.Spread) { s.TopologyKey = "e2e.breakwater.dev/nowhere" }, over(2)))
		awaitSpread(l, metav1.ConditionUnknown, v1alpha1.ReasonDomainsUnknown, "without the label e2e.breakwater.dev/nowhere",
			v1alpha1.SpreadStatus{TopologyKey: "e2e.breakwater.dev/nowhere", Unknown: 7})
		respread(l, nil)
		l.Eventually(func() string {
			p := l.Protector()
			if told := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied); told != nil || p.Status.Spread != nil {
				return fmt.Sprintf("a protector without a spread says %+v of %+v", told, p.Status.Spread)
			}
			return ""
		})
	})
}

func TestAFloorThatALossBreaks(t *testing.T) {
	claim(t, "a protector says that the floor would not outlive the loss of a zone, and no longer when there are more pods elsewhere", func(l *lab) {
		l.Protect(3, spreadBy(zones(outliving)))
		place(l, here(l), layout{"a": 4, "b": 2})
		zone := v1alpha1.SpreadStatus{TopologyKey: corev1.LabelTopologyZone, Domains: 2, Largest: "a", LargestCounted: 4, LargestSharePercent: 67, AvailableAfterLoss: 2}
		awaitSpread(l, metav1.ConditionFalse, v1alpha1.ReasonDomainLossBreaks, `If "a" is lost, 2 of 6 pods are left, and the floor is 3`, zone)
		place(l, elsewhere(l), layout{"b": 1})
		zone.LargestSharePercent, zone.AvailableAfterLoss = 58, 3
		awaitSpread(l, metav1.ConditionTrue, v1alpha1.ReasonSpread, "", zone)
	})
}
