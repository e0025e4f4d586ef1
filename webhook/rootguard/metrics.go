package rootguard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

func newMetrics(registry prometheus.Registerer) (*reviews.Metrics, error) {
	return reviews.New(registry, "kind", prometheus.CounterOpts{
		Name: "breakwater_rootguard_reviews_total",
		Help: "Reviews of deletions of objects that floors may depend on, by kind and reason, without dry runs. Only the reason Denied denies the deletion.",
	}, prometheus.HistogramOpts{
		Name: "breakwater_rootguard_review_duration_seconds",
		Help: "Time to answer a review of a deletion of an object that floors may depend on, by kind, without dry runs.",
	})
}
