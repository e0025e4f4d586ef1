package runbooks_test

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/install"
)

// cells are faults of a cell's cluster, of who counts it, and of its clock.
func cells() []fault {
	second, both := []string{aggregator(1)}, []string{aggregator(0), aggregator(1)}
	return []fault{
		{page: "cell-silent", breaks: "stop the aggregator of worker-2", do: do{
			"stop the aggregator of worker-2":  func(l *lab) { stopAll(l, second) },
			"start the aggregator of worker-2": func(l *lab) { startAll(l, second) },
		}},
		{page: "nobody-counts", breaks: "let nobody have the Lease of worker-2", do: do{
			"let nobody have the Lease of worker-2": func(l *lab) { stopAll(l, second); takeLease(l); startAll(l, second) },
		}},
		{page: "clock-skew", breaks: "set the clock of worker-2 wrong", do: do{
			"set the clock of worker-2 wrong": func(*lab) { tilted.ahead.Store(int64(2 * time.Minute)) },
			"set the clock of worker-2 right": func(*lab) { tilted.ahead.Store(0) },
		}},
		{page: "cell-unguarded", breaks: "erase the webhook configuration of worker-1", do: do{
			"erase the webhook configuration of worker-1": func(l *lab) {
				l.Must(suite.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(l.Context(), "breakwater", metav1.DeleteOptions{}))
			},
		}},
		{page: "reviews-undecided", breaks: "stop the aggregators, make a protector and remove its pods", lasts: true, do: do{
			"stop the aggregators, make a protector and remove its pods": func(l *lab) {
				stopAll(l, both)
				l.Must(l.Core.Create(l.Context(), fresh()))
				awaitHeard(l)
				removals(l, "BreakwaterReviewsUndecided")
			},
			"start the aggregators": func(l *lab) { startAll(l, both) },
		}},
		{page: "counts-not-written", breaks: waits, lasts: true, do: do{waits: func(*lab) {}}},
	}
}

// aggregator is that of a worker.
func aggregator(worker int) string {
	return install.AggregatorName("core", suite.Federation().Workers()[worker].Name())
}

// takeLease gives the Lease of worker-2 to somebody who does not exist.
func takeLease(l *lab) {
	l.Helper()
	core, err := kubernetes.NewForConfig(suite.Federation().Cores()[0].RESTConfig())
	l.Must(err)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "renewTime": metav1.NowMicro(),
	}})
	l.Must(err)
	_, err = core.CoordinationV1().Leases(install.SystemNamespace).Patch(l.Context(), "aggregator-"+skewed, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
}
