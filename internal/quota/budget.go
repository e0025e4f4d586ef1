package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Budget is what a decision is made from, in numbers of pods over all cells.
type Budget struct {
	// Floor must stay available.
	Floor int
	// Available is Σ A_c, over the cells that were counted by the current spec.
	Available int
	// Reserved is Σ |H_c|, over all cells.
	Reserved int
}

// Left is the number of removals that may still be admitted; below zero when the floor is broken already.
func (b Budget) Left() int { return b.Available - b.Reserved - b.Floor }

// Floor returns the number of pods that must stay available.
func Floor(spec *v1alpha1.PodProtectorSpec) int { return int(spec.MinAvailable) }

// BudgetOf adds up the cells of a protector.
func BudgetOf(p *v1alpha1.PodProtector) Budget {
	b := Budget{Floor: Floor(&p.Spec)}
	counted := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if cell.Aggregation.CountedSpec == counted {
			b.Available += int(cell.Aggregation.AvailableReplicas)
		}
		b.Reserved += Open(&cell.AdmissionHistory)
	}
	return b
}

// CountedSpec is a hash of the parts of a spec that the counts of an aggregation depend on. Counts that were
// made by another selector say nothing of the pods that this one covers; a changed floor leaves them valid.
func CountedSpec(spec *v1alpha1.PodProtectorSpec) string {
	text, err := json.Marshal(struct {
		Selector        v1alpha1.PodSelector
		MinReadySeconds int32
	}{spec.Selector, spec.MinReadySeconds})
	if err != nil {
		panic("quota: a struct of strings and numbers has no JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// CellOf returns the part of a protector's status that belongs to a cell; nil before its first aggregation.
func CellOf(p *v1alpha1.PodProtector, cellID string) *v1alpha1.PodProtectorCell {
	for i := range p.Status.Cells {
		if p.Status.Cells[i].CellID == cellID {
			return &p.Status.Cells[i]
		}
	}
	return nil
}
