package topology

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// gather returns the metrics, by "name{label values}", without the common prefix.
func gather(t *testing.T, m prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, label.GetValue())
			}
			values[fmt.Sprintf("%s{%s}", strings.TrimPrefix(family.GetName(), "breakwater_"), strings.Join(labels, ","))] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func newProtector(name string, available, floor, allowed int32, opened ...time.Time) v1alpha1.PodProtector {
	p := v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	cell := v1alpha1.PodProtectorCell{CellID: "one"}
	for _, at := range opened {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{StartTime: metav1.NewMicroTime(at), Counter: 1})
	}
	p.Status = v1alpha1.PodProtectorStatus{
		DesiredAvailable: floor, DisruptionsAllowed: allowed, Cells: []v1alpha1.PodProtectorCell{cell},
		Summary: v1alpha1.Summary{Available: available, Reserved: int32(len(opened)), EstimatedAvailable: available - int32(len(opened))},
	}
	return p
}

func TestSummarizeSortsByRemainingBudget(t *testing.T) {
	now := time.Now()
	accounted := newProtector("accounted", 9, 7, 2, now)
	accounted.Status.Cells[0].AdmissionHistory.Buckets[0].Accounted = true
	limited := newProtector("limited", 9, 2, 0, now.Add(-time.Minute), now.Add(-time.Hour))
	limited.Spec.AdmissionHistory.MaxConcurrentLag = 2
	summary := summarize([]v1alpha1.PodProtector{
		newProtector("open", 9, 7, 2), accounted, limited, newProtector("exhausted", 8, 7, 0, now), newProtector("broken", 6, 7, 0),
	}, 4)
	var names []string
	for _, a := range summary.protectors {
		names = append(names, a.name)
	}
	if diff := cmp.Diff([]string{"broken", "exhausted", "limited", "accounted"}, names); diff != "" {
		t.Errorf("protectors with the least budget (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[budgetState]int{budgetOpen: 2, budgetExhausted: 2, budgetBroken: 1}, summary.byBudget); diff != "" {
		t.Errorf("protectors by budget (-want +got):\n%s", diff)
	}
	if summary.reserved["one"] != 3 || !summary.oldest["one"].Equal(now.Add(-time.Hour).Truncate(time.Nanosecond)) {
		t.Errorf("got %d reservations, the oldest at %s", summary.reserved["one"], summary.oldest["one"])
	}
}

// For any number of protectors, the sums include all, and the accounts those with the least budget.
func TestSummarizeKeepsProtectorsWithLeastBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		protectors := make([]v1alpha1.PodProtector, random.IntN(30))
		for i := range protectors {
			floor, allowed := random.Int32N(5), random.Int32N(4)
			protectors[i] = newProtector(fmt.Sprint("web-", i), floor+allowed-random.Int32N(2), floor, allowed)
		}
		summary, limit := summarize(slices.Clone(protectors), 10), min(10, len(protectors))
		if len(summary.protectors) != limit {
			t.Fatalf("got %d summaries of %d protectors", len(summary.protectors), len(protectors))
		}
		sum, worst := 0, int32(-1)
		for _, n := range summary.byBudget {
			sum += n
		}
		for _, a := range summary.protectors {
			worst = max(worst, int32(a.allowed))
		}
		better := 0
		for i := range protectors {
			if protectors[i].Status.DisruptionsAllowed < worst {
				better++
			}
		}
		if sum != len(protectors) || better > limit {
			t.Fatalf("got sums over %d of %d protectors; %d have less budget than one of the %d reported", sum, len(protectors), better, limit)
		}
	}
}

func TestMetricsReportCellsAndProtectors(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("a", l.createKubeconfig("a"))
	protector := l.protect(7, cell)
	protector.Spec.AdmissionHistory.MaxConcurrentLag = 5
	l.must(l.Update(l.Context(), protector))
	as := newProtector("", 6, 7, 0, l.clock.Add(-time.Minute)).Status
	protector.Status.Summary, protector.Status.DisruptionsAllowed = as.Summary, 0
	protector.Status.ExpectedReplicas = ptr.To(int32(2))
	protector.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionExpectationBelowPods, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMorePodsThanExpected, LastTransitionTime: metav1.Now(),
	}}
	protector.Status.Cells[0].AdmissionHistory = as.Cells[0].AdmissionHistory
	protector.Status.Cells[0].AdmissionHistory.Buckets[0].PodUID = "u"
	l.must(l.Client.Status().Update(l.Context(), protector))

	m := newMetrics(l.Reconciler)
	m.now = func() time.Time { return l.clock }
	if silent := gather(t, m); len(silent) > 0 {
		t.Errorf("standby replica reports metrics %v, want none", silent)
	}
	m.leading.Store(true)
	l.writeHeartbeat(cell)
	l.reconcile(cell)
	l.clock = l.clock.Add(20 * time.Second)
	got, web := gather(t, m), l.namespace+"/"+protector.Name
	for metric, want := range map[string]float64{
		"cell_heartbeat_age_seconds{" + cell.Name + "}": 20, "cell_condition{" + cell.Name + ",Connected}": 1, "cell_condition{" + cell.Name + ",Guarded}": 0,
		"cell_reservations{" + cell.Name + "}": 1, "cell_oldest_reservation_age_seconds{" + cell.Name + "}": 80,
		"protector_available{" + web + "}": 6, "protector_floor{" + web + "}": 7, "protector_budget{" + web + "}": -2,
		"protector_reservations{" + web + "}": 1, "protector_reservation_limit{" + web + "}": 5, "protector_oldest_reservation_age_seconds{" + web + "}": 80,
		"protector_pods_above_expected{" + web + "}": 4,
	} {
		if value, exists := got[metric]; !exists || math.Round(value) != want {
			t.Errorf("metric %s = %v (exists: %v), want %v", metric, value, exists, want)
		}
	}
	if got["protectors{Broken}"] < 1 {
		t.Errorf("got %v protectors with a broken floor, want at least 1", got["protectors{Broken}"])
	}
}
