package quota

import "github.com/breakwater-k8s/breakwater/api/v1alpha1"

// A discounted cell adds min(A_c − |H_c|, 0) to the budget for removals in other cells. That is nothing, as if the cell had no pods
// left, or a negative number if its reservations exceed its pods, as it would be without the discount. So the discount never admits a
// removal that would be denied without it, and after every admitted removal the other cells alone satisfy the floor.
//
// A removal in the discounted cell itself uses the cell's counts unchanged. That cell will report what happened to its pods. Without
// its counts, each of these pods could be removed for free.

// discounted returns the number of available pods that the discount subtracts for a cell. The budget leaves out counts of another spec, so
// there is nothing to subtract.
func discounted(cell *v1alpha1.PodProtectorCell, countedSpec string) int {
	if cell.Discount == "" || cell.Aggregation.CountedSpec != countedSpec {
		return 0
	}
	return max(available(cell, countedSpec)-reserved(cell), 0)
}

// ownDiscount returns the number of available pods that count only for removals in the cell itself.
func ownDiscount(p *v1alpha1.PodProtector, cellID string) int {
	cell := CellOf(p, cellID)
	if cell == nil || cell.Discount == "" {
		return 0
	}
	return discounted(cell, CountedSpec(&p.Spec))
}
