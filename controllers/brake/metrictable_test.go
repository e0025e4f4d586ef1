package brake

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

// protectorsWith returns a client with one protector for each status and reason of the condition DecreasePending.
func protectorsWith(t *testing.T, conditions ...metav1.Condition) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for i, c := range conditions {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(rune('a' + i))}}
		if c.Type = v1alpha1.ConditionDecreasePending; c.Reason != "" {
			p.Status.Conditions = []metav1.Condition{c}
		}
		builder.WithObjects(p)
	}
	return builder.Build()
}

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics(registry, protectorsWith(t))
	registry.Check(t, "../../docs/reference/metrics.md", func(name string) bool {
		return strings.HasPrefix(name, "breakwater_generator_") && strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_decreases")
	})
}

func TestMetricsCountPendingDecreasesAndServeEachVerdict(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	m := newMetrics(registry, protectorsWith(t,
		metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLimitExceeded},
		metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLimitExceeded},
		metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCascade},
		metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPending},
		metav1.Condition{},
	))
	m.decisions.WithLabelValues(verdictConfirmed).Inc()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			got[strings.TrimPrefix(family.GetName(), "breakwater_generator_")+" "+metric.Label[0].GetValue()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"large_decreases_total Confirmed": 1, "large_decreases_total Granted": 0,
		"pending_decreases Cascade": 1, "pending_decreases LimitExceeded": 2, "pending_decreases QuietPeriod": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
