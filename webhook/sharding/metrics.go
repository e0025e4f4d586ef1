package sharding

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

func newMetrics(registry prometheus.Registerer) (*reviews.Metrics, error) {
	return reviews.New(registry, "ring", prometheus.CounterOpts{
		Name: "breakwater_ring_admission_reviews_total", Help: "Reviews of objects of rings by ring and reason. All of them were allowed.",
	}, prometheus.HistogramOpts{
		Name: "breakwater_ring_admission_duration_seconds", Help: "Time to answer a review of an object of a ring, by ring.",
	})
}
