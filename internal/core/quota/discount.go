package quota

import "github.com/breakwater-k8s/breakwater/api/v1alpha1"

// What a discounted cell adds to the budget that removals in other cells meet is min(A_c − |H_c|, 0): nothing, as if all of
// its pods were gone, and less where its reservations exceed its pods, as they would without the discount. So nobody is
// admitted anything that would be refused without it, and what is admitted leaves the floor standing in the other cells alone.
//
// A removal in the discounted cell itself meets its counts as they are: what has become of those pods it will show, and
// without their counts each of them could go for nothing.

// discounted is what the discount takes from the available pods of a cell.
func discounted(cell *v1alpha1.PodProtectorCell, countedSpec string) int {
	if cell.Discount == "" || cell.Aggregation.CountedSpec != countedSpec {
		return 0
	}
	return max(int(cell.Aggregation.CountedReplicas)-Open(&cell.AdmissionHistory), 0)
}

// ownDiscount is what a removal in the cell itself has more than others.
func ownDiscount(p *v1alpha1.PodProtector, cellID string) int {
	cell := CellOf(p, cellID)
	if cell == nil || cell.Discount == "" {
		return 0
	}
	return discounted(cell, CountedSpec(&p.Spec))
}
