package e2e_test

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func forbidEvictions(l *lab, cell storm.Cell) {
	l.Helper()
	none := intstr.FromInt32(0)
	_, err := cell.Client.PolicyV1().PodDisruptionBudgets(l.Namespace).Create(l.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	l.Must(err)
}

func TestAStormInGoodWeather(t *testing.T) {
	claim(t, "the floor holds to the pod, and the whole budget is used", func(l *lab) {
		e2e.Tempest{Pods: 120, Floors: []int{70}, Exhausts: true}.Rage(l)
	})
}

func TestAStormWithFrozenAggregators(t *testing.T) {
	claim(t, "no removal is counted away while the aggregators see nothing", func(l *lab) {
		each := func(do func(string) error) func(*lab, *storm.Storm) {
			return func(l *lab, _ *storm.Storm) {
				for _, cell := range l.Cells {
					l.Must(do(install.AggregatorName(l.Core.Name, cell.Name)))
				}
			}
		}
		// More than compactThreshold removals in each cell, so that reservations merge.
		e2e.Tempest{
			Pods: 300, Floors: []int{60}, Exhausts: true, Before: each(l.Breakwater.Freeze), After: each(l.Breakwater.Thaw),
		}.Rage(l)
	})
}

func TestAStormInWhichAWebhookIsKilled(t *testing.T) {
	claim(t, "the other webhook goes on, and what the killed one knew stands in the core", func(l *lab) {
		killed := install.WebhookName(0)
		e2e.Tempest{
			Pods: 120, Floors: []int{70},
			During: func(l *lab, gale *storm.Storm) {
				l.AwaitRequests(gale, 20)
				l.Must(l.Breakwater.Kill(killed))
			},
			After: func(l *lab, _ *storm.Storm) { l.Must(l.Breakwater.Restart(l.Context(), killed)) },
		}.Rage(l)
	})
}

func TestAStormInWhichTheCoreRestarts(t *testing.T) {
	claim(t, "removals are refused while the core is away, and go on when it is back", func(l *lab) {
		core, ok := l.Federation().Cores()[0].(federation.Faults)
		if !ok {
			l.Skip("this backend cannot restart an apiserver")
		}
		e2e.Tempest{
			Pods: 120, Floors: []int{70},
			During: func(l *lab, gale *storm.Storm) {
				l.AwaitRequests(gale, 20)
				l.Must(core.Kill(federation.APIServer))
				l.AwaitRequests(gale, 100)
				l.Must(core.Restart(l.Context(), federation.APIServer))
			},
		}.Rage(l)
	})
}
