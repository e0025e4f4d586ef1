package share

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// holdings are what the shards have.
func holdings(of *v1alpha1.ClusterRing) []slot.Holding {
	all := make([]slot.Holding, 0, len(of.Status.Holdings))
	for _, h := range of.Status.Holdings {
		all = append(all, slot.Holding{Shard: h.Shard, Holder: h.Holder, Slots: slot.Recorded(h.Slots)})
	}
	return all
}

// recordOf is what an incarnation of a shard has.
func recordOf(of *v1alpha1.ClusterRing, shard, holder string) slot.Set {
	return slot.HeldBy(holdings(of), shard, holder)
}

// record writes that an incarnation of a shard has these slots and no others, and takes out what dead shards have left. It tells
// whether anything has changed.
func record(of *v1alpha1.ClusterRing, shard, holder string, slots slot.Set, isDead func(shard string) bool) bool {
	before := slices.Clone(of.Status.Holdings)
	of.Status.Holdings = slices.DeleteFunc(of.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard || isDead(h.Shard) })
	if !slots.Empty() {
		of.Status.Holdings = append(of.Status.Holdings, v1alpha1.RingHolding{Shard: shard, Holder: holder, Slots: slots.String()})
	}
	slices.SortFunc(of.Status.Holdings, func(a, b v1alpha1.RingHolding) int { return cmp.Compare(a.Shard, b.Shard) })
	return !equality.Semantic.DeepEqual(before, of.Status.Holdings)
}

// forget takes a shard out.
func forget(of *v1alpha1.ClusterRing, shard string) {
	of.Status.Holdings = slices.DeleteFunc(of.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard })
}
