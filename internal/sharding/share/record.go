package share

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// holdings returns the recorded slots of all shards.
func holdings(of *v1alpha1.ClusterRing) []slot.Holding {
	all := make([]slot.Holding, 0, len(of.Status.Holdings))
	for _, h := range of.Status.Holdings {
		all = append(all, slot.Holding{Shard: h.Shard, Holder: h.Holder, Slots: slot.Recorded(h.Slots)})
	}
	return all
}

// recordOf returns the recorded slots of an incarnation of a shard.
func recordOf(of *v1alpha1.ClusterRing, shard, holder string) slot.Set {
	return slot.HeldBy(holdings(of), shard, holder)
}

// record sets the slots of an incarnation of a shard, and removes the records of dead shards. It reports whether it changed anything.
func record(of *v1alpha1.ClusterRing, shard, holder string, slots slot.Set, isDead func(shard string) bool) bool {
	before := slices.Clone(of.Status.Holdings)
	of.Status.Holdings = slices.DeleteFunc(of.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard || isDead(h.Shard) })
	if !slots.Empty() {
		of.Status.Holdings = append(of.Status.Holdings, v1alpha1.RingHolding{Shard: shard, Holder: holder, Slots: slots.String()})
	}
	slices.SortFunc(of.Status.Holdings, func(a, b v1alpha1.RingHolding) int { return cmp.Compare(a.Shard, b.Shard) })
	return !equality.Semantic.DeepEqual(before, of.Status.Holdings)
}

// forget removes the record of a shard.
func forget(of *v1alpha1.ClusterRing, shard string) {
	of.Status.Holdings = slices.DeleteFunc(of.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard })
}
