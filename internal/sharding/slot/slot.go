// Package slot shares namespaces out: each is in one of a fixed number of slots, for ever, and which shard of a ring is to have a
// slot follows from which shards there are.
//
// It is pure: values in, values out.
package slot

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Count is how many slots there are. It can never change: two shards that count otherwise would both count a namespace, or neither.
const Count = 256

// maxLoadPercent bounds how many slots a shard has, as a percentage of the mean.
const maxLoadPercent = 105

// Of is the slot of a namespace.
func Of(namespace string) int { return int(xxhash.Sum64String(namespace) % Count) }

// Shares are the slots that each shard is to have: all who see the same shards come to the same. No shard has more than a
// twentieth above the mean, and each slot is with the shard that a ring gives it to, unless that is full.
func Shares(shards *ring.Shards) map[string]Set {
	shares, names := map[string]Set{}, shards.Shards()
	percent := int32(maxLoadPercent)
	load := ring.Load{Limit: ring.Limit(Count, len(names), &percent), Of: make(map[string]int64, len(names))}
	for n := range Count {
		if shard, ok := shards.Want("slot/"+strconv.Itoa(n), load); ok {
			shares[shard] = shares[shard].With(n)
			load.Of[shard]++
		}
	}
	return shares
}
