package quota_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func drawDiscounted(t *rapid.T) *v1alpha1.PodProtector {
	p, _ := drawProtector(t)
	quota.Decide(p, rapid.SliceOfN(rapid.Custom(drawRemoval), 0, 8).Draw(t, "earlier"))
	compactAll(p, start)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		cell.Discount = rapid.SampledFrom([]v1alpha1.Discount{"", v1alpha1.DiscountStale, v1alpha1.DiscountDraining}).Draw(t, "discount")
		if rapid.IntRange(0, 3).Draw(t, "pods died") == 0 {
			cell.Aggregation.CountedReplicas /= 2
		}
	}
	return p
}

func withoutDiscounts(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	p = p.DeepCopy()
	for i := range p.Status.Cells {
		p.Status.Cells[i].Discount = ""
	}
	return p
}

// budgetLeft is a slow, simple computation of the budget for a removal in a cell, and of the number of certainly available pods.
func budgetLeft(p *v1alpha1.PodProtector, cellID string) (budgetLeft, sure int) {
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		own := int(cell.Aggregation.CountedReplicas)
		for range quota.Reservations(&cell.AdmissionHistory) {
			own--
		}
		switch {
		case cell.Discount == "":
			budgetLeft += own
			sure += own
		case cell.CellID == cellID:
			budgetLeft += own
		case own < 0:
			budgetLeft += own
		}
	}
	return budgetLeft - p.Spec.MinAvailable.IntValue(), sure
}

// A discount only denies. An admitted removal would be admitted without it. In a cell that is not discounted, it leaves the floor
// satisfied by such cells alone.
func TestDiscountNeverAdmitsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawDiscounted(t)
		for _, r := range rapid.SliceOfN(rapid.Custom(drawRemoval), 1, 20).Draw(t, "removals") {
			budget, _ := budgetLeft(p, r.Cell)
			without := withoutDiscounts(p)
			cell := quota.CellOf(p, r.Cell)
			before := -1
			if cell != nil {
				before = quota.Open(&cell.AdmissionHistory)
			}
			verdict := quota.Decide(p, []quota.Removal{r})[0]
			if verdict.Budget.Left() != budget {
				t.Fatalf("Decide() of %+v used a budget of %d, want %d\n%+v", r, verdict.Budget.Left(), budget, p.Status.Cells)
			}
			if verdict.Outcome.Admitted() && !quota.Decide(without, []quota.Removal{r})[0].Outcome.Admitted() {
				t.Fatalf("Decide() of %+v = %s, want a denial as without discounts\n%+v", r, verdict.Outcome, p.Status.Cells)
			}
			floor := p.Spec.MinAvailable.IntValue()
			if _, sure := budgetLeft(p, r.Cell); verdict.Outcome == quota.Reserved && cell.Discount == "" && floor > 0 && sure < floor {
				t.Fatalf("%+v was admitted and leaves %d certain pods, want at least the floor %d\n%+v", r, sure, floor, p.Status.Cells)
			}
			if cell != nil && cell.Discount == v1alpha1.DiscountDraining && quota.Open(&cell.AdmissionHistory) > before {
				t.Fatalf("draining cell got a new reservation: %+v", cell)
			}
		}
	})
}

func TestBatchDecidesLikeSingleDecisionsWithDiscounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batched := drawDiscounted(t)
		single := batched.DeepCopy()
		removals := rapid.SliceOfN(rapid.Custom(drawRemoval), 0, 20).Draw(t, "removals")
		verdicts := quota.Decide(batched, removals)
		for i, r := range removals {
			want := quota.Decide(single, []quota.Removal{r})[0]
			if verdicts[i].Outcome != want.Outcome || verdicts[i].Budget != want.Budget {
				t.Fatalf("removal %d: batch decided %+v, single decision is %+v", i, verdicts[i], want)
			}
		}
	})
}

func TestDiscountedCell(t *testing.T) {
	fresh := func(cell string) quota.Removal { return removal(cell, fmt.Sprint("fresh in ", cell)) }
	for claim, test := range map[string]struct {
		floor    int32
		discount v1alpha1.Discount
		cell     string
		want     quota.Outcome
	}{
		"does not count for removals in other cells":                {5, v1alpha1.DiscountStale, "c0", quota.DeniedNoBudget},
		"leaves the budget of other cells":                          {4, v1alpha1.DiscountStale, "c0", quota.Reserved},
		"counts for its own removals":                               {5, v1alpha1.DiscountStale, "c1", quota.Reserved},
		"admits no new removal while draining":                      {1, v1alpha1.DiscountDraining, "c1", quota.DeniedDraining},
		"does not count for removals in other cells while draining": {5, v1alpha1.DiscountDraining, "c0", quota.DeniedNoBudget},
		"is treated as never aggregated when cleared":               {1, v1alpha1.DiscountCleared, "c1", quota.DeniedNeverAggregated},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(test.floor, 5, 5)
			p.Status.Cells[1].Discount = test.discount
			if test.discount == v1alpha1.DiscountCleared {
				p.Status.Cells[1].Aggregation = v1alpha1.Aggregation{}
			}
			if got := quota.Decide(p, []quota.Removal{fresh(test.cell)})[0]; got.Outcome != test.want {
				t.Errorf("Decide() = %+v, want %s", got, test.want)
			}
		})
	}
}

// A client that repeats a removal forever would otherwise block the removal of the Cell.
func TestDrainingCellDeniesRepeatedRemovals(t *testing.T) {
	p, repeated := protector(1, 5, 5), removal("c1", "pod")
	if got := quota.Decide(p, []quota.Removal{repeated})[0].Outcome; got != quota.Reserved {
		t.Fatalf("Decide() = %s, want %s", got, quota.Reserved)
	}
	quota.CellOf(p, "c1").Discount = v1alpha1.DiscountDraining
	if got := quota.Decide(p, []quota.Removal{repeated})[0].Outcome; got != quota.DeniedDraining {
		t.Errorf("Decide() of a repeated removal = %s, want %s", got, quota.DeniedDraining)
	}
	repeated.Force = true
	if got := quota.Decide(p, []quota.Removal{repeated})[0]; got.Outcome != quota.Renewed || got.Forced != quota.DeniedDraining {
		t.Errorf("Decide() of a break-glass removal = %+v, want %s instead of %s", got, quota.Renewed, quota.DeniedDraining)
	}
}

func TestFloorIgnoresClearedCells(t *testing.T) {
	p := protector(0, 5, 5)
	half := intstr.FromString("50%")
	p.Spec.MinAvailable = &half
	for i := range p.Status.Cells {
		expected := int32(6)
		p.Status.Cells[i].Aggregation.ExpectedReplicas = &expected
	}
	p.Status.Cells[1].Discount, p.Status.Cells[1].Aggregation = v1alpha1.DiscountCleared, v1alpha1.Aggregation{}
	if floor, known := quota.Floor(p); floor != 3 || !known {
		t.Errorf("Floor() = %d, %v, want 3, half of the pods of the other cell", floor, known)
	}
}
