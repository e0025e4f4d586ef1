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

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// told returns the metrics, by "name{label values}", without the common prefix.
func told(t *testing.T, m prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, label.GetValue())
			}
			told[fmt.Sprintf("%s{%s}", strings.TrimPrefix(family.GetName(), "breakwater_"), strings.Join(labels, ","))] = metric.GetGauge().GetValue()
		}
	}
	return told
}

func ledger(name string, available, floor, allowed int32, opened ...time.Time) v1alpha1.PodProtector {
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

func TestBooksAreKeptByWhatIsLeft(t *testing.T) {
	now := time.Now()
	accounted := ledger("accounted", 9, 7, 2, now)
	accounted.Status.Cells[0].AdmissionHistory.Buckets[0].Accounted = true
	limited := ledger("limited", 9, 2, 0, now.Add(-time.Minute), now.Add(-time.Hour))
	limited.Spec.AdmissionHistory.MaxConcurrentLag = 2
	books := bookkeep([]v1alpha1.PodProtector{
		ledger("open", 9, 7, 2), accounted, limited, ledger("exhausted", 8, 7, 0, now), ledger("broken", 6, 7, 0),
	}, 4)
	var names []string
	for _, a := range books.accounts {
		names = append(names, a.name)
	}
	if diff := cmp.Diff([]string{"broken", "exhausted", "limited", "accounted"}, names); diff != "" {
		t.Errorf("who is worst off (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[budget]int{budgetOpen: 2, budgetExhausted: 2, budgetBroken: 1}, books.byBudget); diff != "" {
		t.Errorf("by budget (-want +got):\n%s", diff)
	}
	if books.reserved["one"] != 3 || !books.oldest["one"].Equal(now.Add(-time.Hour).Truncate(time.Nanosecond)) {
		t.Errorf("%d reservations, the oldest of %s", books.reserved["one"], books.oldest["one"])
	}
}

// For any number of protectors, the sums include all, and the accounts those with the least budget.
func TestAccountsAreBoundedAndThoseOfTheWorst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		protectors := make([]v1alpha1.PodProtector, random.IntN(30))
		for i := range protectors {
			floor, allowed := random.Int32N(5), random.Int32N(4)
			protectors[i] = ledger(fmt.Sprint("web-", i), floor+allowed-random.Int32N(2), floor, allowed)
		}
		books, most := bookkeep(slices.Clone(protectors), 10), min(10, len(protectors))
		if len(books.accounts) != most {
			t.Fatalf("%d accounts of %d protectors", len(books.accounts), len(protectors))
		}
		sum, worst := 0, int32(-1)
		for _, n := range books.byBudget {
			sum += n
		}
		for _, a := range books.accounts {
			worst = max(worst, int32(a.allowed))
		}
		better := 0
		for i := range protectors {
			if protectors[i].Status.DisruptionsAllowed < worst {
				better++
			}
		}
		if sum != len(protectors) || better > most {
			t.Fatalf("%d of %d protectors are summed up; %d are worse off than one of %d that are told", sum, len(protectors), better, most)
		}
	}
}

func TestMetricsTellOfCellsAndProtectors(t *testing.T) {
	l := newLab(t)
	cell := l.cell("a", l.worker("a"))
	protector := l.protect(7, cell)
	protector.Spec.AdmissionHistory.MaxConcurrentLag = 5
	l.must(l.Update(l.Context(), protector))
	as := ledger("", 6, 7, 0, l.clock.Add(-time.Minute)).Status
	protector.Status.Summary, protector.Status.DisruptionsAllowed = as.Summary, 0
	protector.Status.Cells[0].AdmissionHistory = as.Cells[0].AdmissionHistory
	protector.Status.Cells[0].AdmissionHistory.Buckets[0].PodUID = "u"
	l.must(l.Client.Status().Update(l.Context(), protector))

	m := newMetrics(l.Reconciler)
	m.now = func() time.Time { return l.clock }
	if silent := told(t, m); len(silent) > 0 {
		t.Errorf("a replica that stands by says %v", silent)
	}
	m.leading.Store(true)
	l.beat(cell)
	l.look(cell)
	l.clock = l.clock.Add(20 * time.Second)
	got, web := told(t, m), l.namespace+"/"+protector.Name
	for metric, want := range map[string]float64{
		"cell_heartbeat_age_seconds{" + cell.Name + "}": 20, "cell_condition{" + cell.Name + ",Connected}": 1, "cell_condition{" + cell.Name + ",Guarded}": 0,
		"cell_reservations{" + cell.Name + "}": 1, "cell_oldest_reservation_age_seconds{" + cell.Name + "}": 80,
		"protector_available{" + web + "}": 6, "protector_floor{" + web + "}": 7, "protector_budget{" + web + "}": -2,
		"protector_reservations{" + web + "}": 1, "protector_reservation_limit{" + web + "}": 5, "protector_oldest_reservation_age_seconds{" + web + "}": 80,
	} {
		if value, there := got[metric]; !there || math.Round(value) != want {
			t.Errorf("%s is %v (%v), want %v", metric, value, there, want)
		}
	}
	if got["protectors{Broken}"] < 1 {
		t.Errorf("%v protectors are broken", got["protectors{Broken}"])
	}
}
