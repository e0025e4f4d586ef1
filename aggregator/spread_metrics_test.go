package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Of many protectors, those that need the user's attention have their own metrics first, and the sums include all.
func TestSpreadMetricsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry).spread
	for i := range maxSpreadSeries + 10 {
		status, percent := metav1.ConditionTrue, int32(50)
		switch i {
		case maxSpreadSeries + 5:
			status, percent = metav1.ConditionFalse, 75
		case maxSpreadSeries + 6:
			status = metav1.ConditionUnknown
		}
		p := &v1alpha1.PodProtector{Status: v1alpha1.PodProtectorStatus{
			Spread:     &v1alpha1.SpreadStatus{LargestSharePercent: percent},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSpreadSatisfied, Status: status}},
		}}
		m.record(types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("web-%04d", i)}, p)
	}
	got := gathered(t, registry)
	for metric, want := range map[string]float64{
		`spread_protectors{True}`: maxSpreadSeries + 8, `spread_protectors{False}`: 1, `spread_protectors{Unknown}`: 1,
		`spread_satisfied{default/web-1005}`: 0, `spread_largest_domain_ratio{default/web-1005}`: 0.75,
		`spread_satisfied{default/web-1006}`: -1, `spread_satisfied{default/web-0000}`: 1,
	} {
		if value, there := got[metric]; !there || value != want {
			t.Errorf("%s is %v (%v), want %v", metric, value, there, want)
		}
	}
	if len(got) != 2*maxSpreadSeries+3 {
		t.Errorf("%d series, want %d", len(got), 2*maxSpreadSeries+3)
	}
	m.records.Clear()
	if got := gathered(t, registry); len(got) != 3 || got[`spread_protectors{True}`] != 0 {
		t.Errorf("metrics after the leadership ended: %v, want none", got)
	}
}

// gathered returns the metrics of spreads, by name and label.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if name, ok := strings.CutPrefix(family.GetName(), "breakwater_aggregator_spread_"); ok {
				all["spread_"+name+"{"+metric.GetLabel()[0].GetValue()+"}"] = metric.GetGauge().GetValue()
			}
		}
	}
	return all
}
