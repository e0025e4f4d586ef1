// Package slot maps namespaces to a fixed number of slots, permanently. It computes the slots of each shard from the set of shards.
//
// It is pure.
package slot

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Count is the number of slots. It must never change: two shards with different counts would both own a namespace, or neither would.
const Count = 256

// maxLoadPercent limits the number of slots of a shard, as a percentage of the mean.
const maxLoadPercent = 105

// Of returns the slot of a namespace.
func Of(namespace string) int { return int(xxhash.Sum64String(namespace) % Count) }

// ByShard returns the slots of each shard. Processes that see the same shards compute the same result. No shard has more than 5 %
// above the mean. Each slot belongs to the shard that the ring assigns it to, unless that shard is full.
func ByShard(shards *ring.Shards) map[string]Set {
	assigned, names := map[string]Set{}, shards.Shards()
	percent := int32(maxLoadPercent)
	load := ring.Load{Limit: ring.Limit(Count, len(names), &percent), Of: make(map[string]int64, len(names))}
	for n := range Count {
		if shard, ok := shards.Want("slot/"+strconv.Itoa(n), load); ok {
			assigned[shard] = assigned[shard].With(n)
			load.Of[shard]++
		}
	}
	return assigned
}
