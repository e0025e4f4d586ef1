package keeper

import "github.com/prometheus/client_golang/prometheus"

// metrics are documented in docs/reference/metrics.md.
type metrics struct {
	restored prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, losses *Losses) *metrics {
	m := &metrics{restored: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "breakwater_generator_restored_protectors_total",
		Help: "Protectors that vanished without having been released and were recreated.",
	})}
	registry.MustRegister(m.restored, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_generator_vanished_protectors",
		Help: "Protectors that vanished without having been released and are not recreated yet.",
	}, func() float64 { return float64(losses.count()) }))
	return m
}
