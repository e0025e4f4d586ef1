package generator

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Otherwise an alert on a shard that has lost a slot would never end, and the sum over shards would count its workloads twice.
func TestShardStopsReportingReleasedSlots(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	web := policy.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	kept := policy.Ref{Group: "apps", Kind: "Deployment", Namespace: "other", Name: "web"}
	gone := policy.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "gone"}
	m.observe(web, protected)
	m.observe(kept, protected)
	m.observe(gone, sourceVanished)
	m.dropSlots(slot.Set{}.With(slot.Of("shop")))
	if n := sumOfSeries(t, registry, "breakwater_generator_protected_sources"); n != 1 {
		t.Errorf("got %v protected workloads, want 1", n)
	}
	if n := sumOfSeries(t, registry, "breakwater_generator_vanished_sources"); n != 0 {
		t.Errorf("got %v vanished workloads, want 0", n)
	}
	m.observe(web, protected)
	if n := sumOfSeries(t, registry, "breakwater_generator_protected_sources"); n != 2 {
		t.Errorf("got %v protected workloads after the slot returned, want 2", n)
	}
}

// sumOfSeries returns the sum of the series of a metric.
func sumOfSeries(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}
