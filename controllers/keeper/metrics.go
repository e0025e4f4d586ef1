package keeper

import "github.com/prometheus/client_golang/prometheus"

// metrics are documented in docs/reference/metrics.md.
type metrics struct {
	restored prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, losses *Losses) (*metrics, error) {
	m := &metrics{restored: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "breakwater_generator_restored_protectors_total",
		Help: "Protectors that vanished without having been released and were recreated.",
	})}
	vanished := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_generator_vanished_protectors",
		Help: "Protectors that vanished without having been released and are not recreated yet.",
	}, func() float64 { return float64(losses.count()) })
	for _, collector := range []prometheus.Collector{m.restored, vanished} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}
