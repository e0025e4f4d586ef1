package runbooks_test

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// worker2Faults returns the faults of the aggregator of worker-2. No other fault occurs in that worker meanwhile.
func worker2Faults() []fault {
	aggregator := []string{aggregatorOf(1)}
	return []fault{
		{page: "cell-silent", breakHook: "stop the aggregator of worker-2", hooks: hookMap{
			"stop the aggregator of worker-2":  func(l *fixture) { stopComponents(l, aggregator) },
			"start the aggregator of worker-2": func(l *fixture) { startComponents(l, aggregator) },
		}},
		{page: "cell-without-leader", breakHook: "give the Lease of worker-2 to a nonexistent holder", hooks: hookMap{
			"give the Lease of worker-2 to a nonexistent holder": func(l *fixture) {
				stopComponents(l, aggregator)
				acquireLease(l, "worker-2")
				startComponents(l, aggregator)
			},
		}},
	}
}

// worker1Faults returns the faults of worker-1: of its aggregator, of its counts and reservations, and of its API server.
func worker1Faults() []fault {
	one := aggregatorOf(0)
	freeze := func(l *fixture) { l.Must(suite.Breakwater.Freeze(one)) }
	resume := func(l *fixture) { l.Must(suite.Breakwater.Thaw(one)) }
	return []fault{
		{page: "cell-unguarded", breakHook: "erase the webhook configuration of worker-1", hooks: hookMap{
			"erase the webhook configuration of worker-1": func(l *fixture) {
				name := "breakwater-cell-" + suite.Cells[0].Name
				l.Must(suite.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(l.Context(), name, metav1.DeleteOptions{}))
			},
		}},
		{page: "reservations-full", breakHook: waitHook, hooks: hookMap{
			"freeze the aggregator of worker-1": freeze, waitHook: noFault, "thaw the aggregator of worker-1": resume,
		}},
		{page: "reservations-not-settled", breakHook: waitHook, hooks: hookMap{
			"freeze the aggregator of worker-1": freeze, waitHook: noFault, "thaw the aggregator of worker-1": resume,
		}},
		{page: "floor-broken", breakHook: "make three pods unready", hooks: hookMap{
			"make three pods unready": func(l *fixture) { setThreeReady(l, false) },
			"make the pods ready":     func(l *fixture) { setThreeReady(l, true) },
		}},
		{page: "budget-exhausted", breakHook: "raise the floor to the number of pods, and remove them", hooks: hookMap{
			"raise the floor to the number of pods, and remove them": func(l *fixture) {
				setFloor(l, 6)
				waitForDenials(l, "web")
				removeUntilAlert(l, "BreakwaterBudgetExhausted")
			},
			"lower the floor": func(l *fixture) { setFloor(l, 4) },
		}},
		{page: "reviews-undecided", breakHook: "stop the aggregator, make a protector and remove its pods", staysActive: true, hooks: hookMap{
			"stop the aggregator, make a protector and remove its pods": func(l *fixture) {
				stopComponents(l, []string{one})
				l.Must(l.Core.Create(l.Context(), newUncountedProtector()))
				waitForDenials(l, "fresh")
				removeUntilAlert(l, "BreakwaterReviewsUndecided")
			},
			"start the aggregator": func(l *fixture) { startComponents(l, []string{one}) },
		}},
		{page: "counts-not-written", breakHook: waitHook, staysActive: true, hooks: hookMap{waitHook: noFault}},
	}
}

// aggregatorOf returns the name of the aggregator of a worker.
func aggregatorOf(worker int) string {
	return install.AggregatorName("core", suite.Federation().Workers()[worker].Name())
}

// acquireLease sets a holder that does not exist on the Lease of a cell.
func acquireLease(l *fixture, cell string) {
	l.Helper()
	core, err := kubernetes.NewForConfig(suite.Federation().Cores()[0].RESTConfig())
	l.Must(err)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"holderIdentity": "nonexistent", "leaseDurationSeconds": 3600, "renewTime": metav1.NowMicro(),
	}})
	l.Must(err)
	_, err = core.CoordinationV1().Leases(install.SystemNamespace).Patch(l.Context(), "aggregator-"+cell, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
}
