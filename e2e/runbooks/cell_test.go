package runbooks_test

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// second are faults of who counts worker-2, in which nothing else happens meanwhile.
func second() []fault {
	aggregator := []string{aggregator(1)}
	return []fault{
		{page: "cell-silent", breaks: "stop the aggregator of worker-2", do: do{
			"stop the aggregator of worker-2":  func(l *lab) { stopAll(l, aggregator) },
			"start the aggregator of worker-2": func(l *lab) { startAll(l, aggregator) },
		}},
		{page: "nobody-counts", breaks: "let nobody have the Lease of worker-2", do: do{
			"let nobody have the Lease of worker-2": func(l *lab) { stopAll(l, aggregator); takeLease(l, "worker-2"); startAll(l, aggregator) },
		}},
	}
}

// first are faults of worker-1: of who counts it, of what is counted and reserved there, and of its apiserver.
func first() []fault {
	one := aggregator(0)
	freeze := func(l *lab) { l.Must(suite.Breakwater.Freeze(one)) }
	thaw := func(l *lab) { l.Must(suite.Breakwater.Thaw(one)) }
	return []fault{
		{page: "cell-unguarded", breaks: "erase the webhook configuration of worker-1", do: do{
			"erase the webhook configuration of worker-1": func(l *lab) {
				l.Must(suite.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(l.Context(), "breakwater", metav1.DeleteOptions{}))
			},
		}},
		{page: "reservations-full", breaks: waits, do: do{
			"freeze the aggregator of worker-1": freeze, waits: nothing, "thaw the aggregator of worker-1": thaw,
		}},
		{page: "reservations-not-settled", breaks: waits, do: do{
			"freeze the aggregator of worker-1": freeze, waits: nothing, "thaw the aggregator of worker-1": thaw,
		}},
		{page: "floor-broken", breaks: "make three pods unready", do: do{
			"make three pods unready": func(l *lab) { setReady(l, false) },
			"make the pods ready":     func(l *lab) { setReady(l, true) },
		}},
		{page: "reviews-undecided", breaks: "stop the aggregator, make a protector and remove its pods", lasts: true, do: do{
			"stop the aggregator, make a protector and remove its pods": func(l *lab) {
				stopAll(l, []string{one})
				l.Must(l.Core.Create(l.Context(), fresh()))
				awaitHeard(l)
				removals(l, "BreakwaterReviewsUndecided")
			},
			"start the aggregator": func(l *lab) { startAll(l, []string{one}) },
		}},
		{page: "counts-not-written", breaks: waits, lasts: true, do: do{waits: nothing}},
	}
}

// aggregator is that of a worker.
func aggregator(worker int) string {
	return install.AggregatorName("core", suite.Federation().Workers()[worker].Name())
}

// takeLease gives the Lease of a cell to somebody who does not exist.
func takeLease(l *lab, cell string) {
	l.Helper()
	core, err := kubernetes.NewForConfig(suite.Federation().Cores()[0].RESTConfig())
	l.Must(err)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "renewTime": metav1.NowMicro(),
	}})
	l.Must(err)
	_, err = core.CoordinationV1().Leases(install.SystemNamespace).Patch(l.Context(), "aggregator-"+cell, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
}
