package ownership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// The Cell's status records which shard has which slots. It is only changed by compare-and-swap.

// Holdings returns the slots that each shard has.
func Holdings(cell *v1alpha1.Cell) []slot.Holding {
	all := make([]slot.Holding, 0, len(cell.Status.Shards))
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		all = append(all, slot.Holding{Shard: s.Name, Holder: s.Holder, Slots: slot.Recorded(s.Slots)})
	}
	return all
}

// EntryOf returns the entry of a shard; nil if it has none.
func EntryOf(cell *v1alpha1.Cell, shard string) *v1alpha1.CellShard {
	i := slices.IndexFunc(cell.Status.Shards, func(s v1alpha1.CellShard) bool { return s.Name == shard })
	if i < 0 {
		return nil
	}
	return &cell.Status.Shards[i]
}

// AddEntry adds an entry without slots for an incarnation of a shard. The slots of an earlier incarnation become unowned.
func AddEntry(cell *v1alpha1.Cell, ring, shard, holder string) {
	if entry := EntryOf(cell, shard); entry == nil || entry.Holder != holder {
		RemoveEntry(cell, shard)
		cell.Status.Shards = append(cell.Status.Shards, v1alpha1.CellShard{Name: shard, Ring: ring, Holder: holder})
		slices.SortFunc(cell.Status.Shards, func(a, b v1alpha1.CellShard) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// RemoveEntry removes the entry of a shard.
func RemoveEntry(cell *v1alpha1.Cell, shard string) {
	cell.Status.Shards = slices.DeleteFunc(cell.Status.Shards, func(s v1alpha1.CellShard) bool { return s.Name == shard })
}

// AssignSlots writes that a shard has these slots, some of which may have belonged to another shard, and removes the entries of dead
// shards that have no slots left.
func AssignSlots(cell *v1alpha1.Cell, shard string, slots slot.Set, isDead func(shard string) bool) {
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		has := slot.Recorded(s.Slots)
		if s.Name == shard {
			has = slots
		} else {
			has = has.Minus(slots)
		}
		s.Slots = has.String()
	}
	cell.Status.Shards = slices.DeleteFunc(cell.Status.Shards, func(s v1alpha1.CellShard) bool {
		return s.Name != shard && s.Slots == "" && isDead(s.Name)
	})
}

// SumShards computes the Cell's own counts and condition from those of its shards.
func SumShards(cell *v1alpha1.Cell) {
	var pods, protectors int64
	for i := range cell.Status.Shards {
		pods, protectors = pods+int64(cell.Status.Shards[i].Pods), protectors+int64(cell.Status.Shards[i].Protectors)
	}
	cell.Status.Pods, cell.Status.Protectors = quota.Saturate(int(pods)), quota.Saturate(int(protectors))
	meta.SetStatusCondition(&cell.Status.Conditions, shardsReadyCondition(cell))
}

// shardsReadyCondition returns the condition that reports whether every slot has a shard.
func shardsReadyCondition(cell *v1alpha1.Cell) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, ObservedGeneration: cell.Generation}
	var names []string
	for i := range cell.Status.Shards {
		if cell.Status.Shards[i].Slots != "" {
			names = append(names, cell.Status.Shards[i].Name)
		}
	}
	if unowned := slot.Unowned(Holdings(cell)); !unowned.Empty() {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonAggregatorIdle
		ready.Message = fmt.Sprintf("%d of %d slots have no aggregator (%s). Until a shard claims them, their last counts stay "+
			"in use and their reservations are not settled.", unowned.Len(), slot.Count, unowned)
		return ready
	}
	ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonAggregating
	ready.Message = fmt.Sprintf("%s count the pods of this cell.", strings.Join(names, ", "))
	if len(names) == 1 {
		ready.Message = fmt.Sprintf("%s counts the pods of this cell.", names[0])
	}
	return ready
}
