package quota_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// escrowed returns a protector with a floor of 4 and 10 counted pods in cell a, whose aggregator knows escrows.
func escrowed(change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(4)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{
		CountedReplicas: 10, CountedSpec: quota.CountedSpec(&p.Spec), KnowsEscrows: true,
	}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestWhereReplicasMayReserveInAdvance(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *v1alpha1.PodProtector)
		want   bool
	}{
		"a protector that is counted":            {func(*v1alpha1.PodProtector) {}, true},
		"an aggregator that knows no escrows":    {func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.KnowsEscrows = false }, false},
		"a cell that was never counted":          {func(p *v1alpha1.PodProtector) { p.Status.Cells = nil }, false},
		"a cell that is being drained":           {func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Discount = v1alpha1.DiscountDraining }, false},
		"void counts":                            {func(p *v1alpha1.PodProtector) { quota.VoidCounts(&p.Status.Cells[0].Aggregation) }, false},
		"an unknown floor":                       {func(p *v1alpha1.PodProtector) { percent := intstr.FromString("50%"); p.Spec.MinAvailable = &percent }, false},
		"a limit of open reservations":           {func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 5 }, false},
		"a share":                                {func(p *v1alpha1.PodProtector) { p.Spec.ShareOf = &v1alpha1.ShareOf{} }, false},
		"a cell that decides on a share":         {func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Share = &v1alpha1.CellShare{} }, false},
		"cells that will decide on shares":       {func(p *v1alpha1.PodProtector) { p.Spec.CoreOutage = v1alpha1.CoreOutageLocalShare }, false},
		"a protector that tolerates domain loss": {func(p *v1alpha1.PodProtector) { p.Spec.Spread = &v1alpha1.Spread{TolerateDomainLoss: true} }, false},
		"a protector that waits for its status":  {func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "u"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := escrowed(c.change)
			if got := quota.MayEscrow(p, "a"); got != c.want {
				t.Errorf("MayEscrow() = %v, want %v", got, c.want)
			}
			if granted := quota.GrantEscrow(p, "a", 2); granted > 0 != c.want {
				t.Errorf("GrantEscrow() = %d", granted)
			}
			if got := quota.MayUseEscrow(p, "a"); got != c.want {
				t.Errorf("MayUseEscrow() = %v, want %v", got, c.want)
			}
		})
	}
}

// Half of the budget stays for other replicas, and an escrow reduces the budget like the reservations of pods.
func TestEscrowsReduceTheBudget(t *testing.T) {
	p := escrowed()
	h := &p.Status.Cells[0].AdmissionHistory
	for i, want := range []int{3, 0, 0} { // of a budget of 6, then of 3 less the 3 that are held
		if got := quota.GrantEscrow(p, "a", 100); got != want {
			t.Fatalf("grant %d is %d, want %d", i, got, want)
		}
		if i == 0 {
			quota.SetEscrow(h, "one", want, 1)
		}
	}
	if got := quota.BudgetOf(p); got.Reserved != 3 || got.Left() != 3 {
		t.Errorf("the budget is %+v, want 3 reserved and 3 left", got)
	}
	if got := quota.GrantEscrow(escrowed(), "a", 1); got != 1 {
		t.Errorf("GrantEscrow() = %d, want no more than wanted", got)
	}
	p.Status.Cells[0].Aggregation.CountedReplicas = 7 // pods have died
	if !quota.MayUseEscrow(p, "a") {
		t.Error("MayUseEscrow() = false, and what is reserved leaves the floor")
	}
	p.Status.Cells[0].Aggregation.CountedReplicas = 6
	if quota.MayUseEscrow(p, "a") {
		t.Error("MayUseEscrow() = true, and what is reserved breaks the floor")
	}
}

// What an escrow has admitted is charged, also if pods have died or the escrow has ended since.
func TestEscrowedRemovalsAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ held, counted, rest, wantReserved int }{
		"an escrow":                           {5, 10, 3, 5},
		"an escrow that has ended":            {0, 10, 0, 2},
		"an escrow, and pods that have died":  {5, 4, 3, 5},
		"an escrow of which nothing is left":  {2, 10, 0, 2},
		"an escrow of which more is given up": {5, 10, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := escrowed()
			p.Status.Cells[0].Aggregation.CountedReplicas = int32(c.counted)
			h := &p.Status.Cells[0].AdmissionHistory
			quota.SetEscrow(h, "one", c.held, 1)
			quota.NameEscrowed(p, "a", "one", []quota.Removal{modelRemoval(0), modelRemoval(1)}, c.rest, 2)
			if !quota.HasReservation(h, modelUID(0)) || !quota.HasReservation(h, modelUID(1)) || int(quota.EscrowOf(h, "one").Count) != c.rest {
				t.Errorf("the history is %+v, want both pods and %d in advance", h, c.rest)
			}
			if got := quota.Open(h); got != c.wantReserved {
				t.Errorf("%d are reserved, want %d", got, c.wantReserved)
			}
		})
	}
}

// The API server rejects a write that drops a list of escrows. So the write that ends the last one leaves an empty list.
func TestListOfEscrowsOutlivesTheLastByOneWrite(t *testing.T) {
	h := &v1alpha1.AdmissionHistory{}
	quota.SetEscrow(h, "one", 2, 1)
	quota.SetEscrow(h, "two", 3, 7)
	if ended := quota.EndEscrows(h, func(e v1alpha1.Escrow) bool { return e.Holder == "two" }); !ended {
		t.Error("EndEscrows() = false")
	}
	if diff := cmp.Diff([]v1alpha1.Escrow{{Holder: "one", Count: 2, Stamp: 1}}, h.Escrows); diff != "" {
		t.Errorf("after the end of an escrow (-want +got):\n%s", diff)
	}
	quota.SetEscrow(h, "one", 0, 2)
	if text, err := json.Marshal(h); err != nil || string(text) != `{"escrows":[]}` {
		t.Errorf("after the end of the last one the history is %s (%v), want an empty list", text, err)
	}
	if ended := quota.EndEscrows(h, func(v1alpha1.Escrow) bool { return true }); ended || h.Escrows != nil {
		t.Errorf("EndEscrows() = %v and leaves %v, want nothing", ended, h.Escrows)
	}
}

// A stamp is timed from when it is first seen, and a new stamp begins again.
func TestEscrowsExpireAfterTheirLifetimeAndTheDeadline(t *testing.T) {
	const deadline = time.Minute
	now := time.Unix(1_800_000_000, 0)
	var timers quota.Deadlines
	h := &v1alpha1.AdmissionHistory{Escrows: []v1alpha1.Escrow{{Holder: "one", Count: 1, Stamp: 1}}}
	check := func(after time.Duration, want bool) {
		t.Helper()
		timers.Observe(h, now.Add(after))
		if got := timers.HasEscrowPassed(h.Escrows[0], deadline, now.Add(after)); got != want {
			t.Errorf("HasEscrowPassed() after %s = %v, want %v", after, got, want)
		}
	}
	check(0, false)
	check(deadline+quota.EscrowLifetime-1, false)
	check(deadline+quota.EscrowLifetime, true)
	h.Escrows[0].Stamp = 2
	check(deadline+quota.EscrowLifetime, false)
	if next, ok := timers.Next(deadline); !ok || !next.Equal(now.Add(2*(deadline+quota.EscrowLifetime))) {
		t.Errorf("Next() = %s, %v, want when the new stamp passes", next, ok)
	}
	check(2*(deadline+quota.EscrowLifetime), true)
	h.Escrows = nil
	timers.Observe(h, now)
	if _, ok := timers.Next(deadline); ok {
		t.Error("Next() has a time for an escrow that has ended")
	}
}

// Settlement ends the last escrow, and the same write records an open share again, which drops all reservations.
func TestListStaysInTheWriteThatEndsTheLastEscrow(t *testing.T) {
	h := &v1alpha1.AdmissionHistory{Escrows: []v1alpha1.Escrow{{Holder: "one", Count: 1, Stamp: 1}}}
	quota.EndEscrows(h, func(v1alpha1.Escrow) bool { return true })
	quota.DropReservations(h)
	if h.Escrows == nil {
		t.Error("the list is dropped in the write that ends its last escrow, which the API server rejects")
	}
}

// The API server rejects a write with more escrows of a cell than 64.
func TestFullListOfEscrowsGetsNoMore(t *testing.T) {
	for crashed, want := range map[int]int{63: 2, 64: 0} {
		p := escrowed(func(p *v1alpha1.PodProtector) {
			p.Spec.MinAvailable, p.Status.Cells[0].Aggregation.CountedReplicas = v1alpha1.Pods(0), 1000
		})
		p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
		for i := range crashed {
			h := &p.Status.Cells[0].AdmissionHistory
			h.Escrows = append(h.Escrows, v1alpha1.Escrow{Holder: fmt.Sprint("crashed-", i), Count: 1})
		}
		if got := quota.GrantEscrow(p, "a", 2); got != want {
			t.Errorf("with %d escrows, a replica gets %d reservations, want %d", crashed, got, want)
		}
	}
}
