package quota

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Budget is the input of a decision, in numbers of pods over all cells.
type Budget struct {
	// Floor is the number of pods that must stay available. While the floor is unknown, it is the number of available pods.
	Floor int
	// FloorUnknown reports that the floor cannot be computed, because the expected number of pods is unknown.
	FloorUnknown bool
	// Available is Σ A_c, the number of pods that meet the criterion, over the cells that were counted by the current spec.
	Available int
	// Reserved is Σ |H_c|, over all cells.
	Reserved int
}

// Left returns the number of removals that may still be admitted. It is negative if fewer pods than the floor are left.
func (b Budget) Left() int { return b.Available - b.Reserved - b.Floor }

// BudgetOf adds up the cells of a protector. The result applies to removals in a cell that is not discounted and has no share.
func BudgetOf(p *v1alpha1.PodProtector) Budget {
	b := Budget{}
	counted := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		b.Available += available(cell, counted) - discounted(cell, counted)
		b.Reserved += reserved(cell)
	}
	floor, known := Floor(p)
	if b.Floor, b.FloorUnknown = floor, !known; !known {
		b.Floor = b.Available
	}
	return b
}

// CountedSpec returns a hash of the parts of a spec that the counts of an aggregation depend on. Counts made by another selector or
// criterion do not apply to the pods that count by this one. A change of the floor leaves counts valid.
func CountedSpec(spec *v1alpha1.PodProtectorSpec) string {
	return hashOf(struct {
		Selector            *v1alpha1.PodSelector `json:",omitempty"`
		TargetRef           *v1alpha1.TargetRef   `json:",omitempty"`
		MinReadySeconds     int32
		AggregationSelector *v1alpha1.PodSelector `json:",omitempty"`
		ExemptPodSelector   *v1alpha1.PodSelector `json:",omitempty"`
		Criterion           v1alpha1.Criterion
	}{spec.Selector, spec.TargetRef, spec.MinReadySeconds, spec.AggregationSelector, spec.ExemptPodSelector, cmp.Or(spec.Criterion, v1alpha1.CriterionAvailable)})
}

// SelectedSpec returns a hash of the parts of a spec that select pods, and so the workloads that are expected. A new hash is a user's
// decision: the aggregators then determine the workloads again, from their pods.
func SelectedSpec(spec *v1alpha1.PodProtectorSpec) string {
	return hashOf(struct {
		selectingSpec

		// Rule is the rule by which the workloads were found, which is part of the hash.
		Rule int
	}{selectingSpecOf(spec), 16})
}

// FormerSelectedSpec returns the hash of versions before rule 16, whose workloads were the topmost controllers.
func FormerSelectedSpec(spec *v1alpha1.PodProtectorSpec) string { return hashOf(selectingSpecOf(spec)) }

// selectingSpec is the parts of a spec that select pods.
type selectingSpec struct {
	Selector            *v1alpha1.PodSelector `json:",omitempty"`
	TargetRef           *v1alpha1.TargetRef   `json:",omitempty"`
	AggregationSelector *v1alpha1.PodSelector `json:",omitempty"`
	ExemptPodSelector   *v1alpha1.PodSelector `json:",omitempty"`
}

func selectingSpecOf(spec *v1alpha1.PodProtectorSpec) selectingSpec {
	return selectingSpec{spec.Selector, spec.TargetRef, spec.AggregationSelector, spec.ExemptPodSelector}
}

func hashOf(parts any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("quota: cannot encode the fields of a spec: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// CellOf returns the entry of a cell in a protector's status. It is nil before the cell's first aggregation.
func CellOf(p *v1alpha1.PodProtector, cellID string) *v1alpha1.PodProtectorCell {
	for i := range p.Status.Cells {
		if p.Status.Cells[i].CellID == cellID {
			return &p.Status.Cells[i]
		}
	}
	return nil
}

// DropCell removes the entry of a cell from a protector's status.
func DropCell(p *v1alpha1.PodProtector, cellID string) {
	p.Status.Cells = slices.DeleteFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.CellID == cellID })
}
