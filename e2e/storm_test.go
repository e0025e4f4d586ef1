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

func createForbiddingBudget(l *fixture, cell storm.Cell) {
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

func TestStormWithoutFaults(t *testing.T) {
	claim(t, "the floor holds exactly, and the whole budget is used", func(l *fixture) {
		e2e.FaultStorm{Pods: 120, FloorsByCore: []int{70}, ExhaustsBudget: true}.Run(l)
	})
}

func TestStormWithFrozenAggregators(t *testing.T) {
	claim(t, "no reservation is settled while the aggregators receive no events", func(l *fixture) {
		each := func(do func(string) error) func(*fixture, *storm.Storm) {
			return func(l *fixture, _ *storm.Storm) {
				for _, cell := range l.Cells {
					l.Must(do(install.AggregatorName(l.Core.Name, cell.Name)))
				}
			}
		}
		// More than compactThreshold removals in each cell, so that reservations merge.
		e2e.FaultStorm{
			Pods: 300, FloorsByCore: []int{60}, ExhaustsBudget: true, BeforeStorm: each(l.Breakwater.Freeze), AfterStorm: each(l.Breakwater.Thaw),
		}.Run(l)
	})
}

func TestStormWithKilledWebhook(t *testing.T) {
	claim(t, "the other webhook continues, and the reservations of the killed one are stored in the core", func(l *fixture) {
		killed := install.WebhookName(0)
		e2e.FaultStorm{
			Pods: 120, FloorsByCore: []int{70},
			DuringStorm: func(l *fixture, load *storm.Storm) {
				l.WaitForRequests(load, 20)
				l.Must(l.Breakwater.Kill(killed))
			},
			AfterStorm: func(l *fixture, _ *storm.Storm) { l.Must(l.Breakwater.Restart(l.Context(), killed)) },
		}.Run(l)
	})
}

func TestStormWithCoreRestart(t *testing.T) {
	claim(t, "removals are denied while the core is unreachable, and admitted when it is reachable again", func(l *fixture) {
		core, ok := l.Federation().Cores()[0].(federation.Faults)
		if !ok {
			l.Skip("this backend cannot restart an API server")
		}
		e2e.FaultStorm{
			Pods: 120, FloorsByCore: []int{70},
			DuringStorm: func(l *fixture, load *storm.Storm) {
				l.WaitForRequests(load, 20)
				l.Must(core.Kill(federation.APIServer))
				l.WaitForRequests(load, 100)
				l.Must(core.Restart(l.Context(), federation.APIServer))
			},
		}.Run(l)
	})
}
