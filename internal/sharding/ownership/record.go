package ownership

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// holdings returns the recorded slots of all shards.
func holdings(clusterRing *v1alpha1.ClusterRing) []slot.Holding {
	all := make([]slot.Holding, 0, len(clusterRing.Status.Holdings))
	for _, h := range clusterRing.Status.Holdings {
		all = append(all, slot.Holding{Shard: h.Shard, Holder: h.Holder, Slots: slot.Recorded(h.Slots)})
	}
	return all
}

func recordOf(clusterRing *v1alpha1.ClusterRing, shard, holder string) slot.Set {
	return slot.HeldBy(holdings(clusterRing), shard, holder)
}

// record sets the slots of an incarnation of a shard, and removes the records of dead shards. It reports whether it changed anything.
func record(clusterRing *v1alpha1.ClusterRing, shard, holder string, slots slot.Set, isDead func(shard string) bool) bool {
	before := slices.Clone(clusterRing.Status.Holdings)
	clusterRing.Status.Holdings = slices.DeleteFunc(clusterRing.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard || isDead(h.Shard) })
	if !slots.Empty() {
		clusterRing.Status.Holdings = append(clusterRing.Status.Holdings, v1alpha1.RingHolding{Shard: shard, Holder: holder, Slots: slots.String()})
	}
	slices.SortFunc(clusterRing.Status.Holdings, func(a, b v1alpha1.RingHolding) int { return cmp.Compare(a.Shard, b.Shard) })
	return !equality.Semantic.DeepEqual(before, clusterRing.Status.Holdings)
}

func removeRecord(clusterRing *v1alpha1.ClusterRing, shard string) {
	clusterRing.Status.Holdings = slices.DeleteFunc(clusterRing.Status.Holdings, func(h v1alpha1.RingHolding) bool { return h.Shard == shard })
}
