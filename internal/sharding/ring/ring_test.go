package ring_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}

func drawShards(t *rapid.T, least int) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,6}[a-z0-9]`), least, 8, rapid.ID).Draw(t, "shards")
}

// share describes the distribution of 100,000 keys over 10 shards, and the keys moved by one more shard.
type share struct{ maxOverMean, moved float64 }

func measure(set, tokens int) share {
	const shards, keys = 10, 100_000
	some := names(fmt.Sprintf("controller-%d", set), shards+1)
	before, after := ring.New(some[:shards], tokens), ring.New(some, tokens)
	loads, moved, most := map[string]int{}, 0, 0
	for i := range keys {
		key := fmt.Sprintf("object/apps/deployments/namespace-%d/web-%d", i%100, i)
		owner, _ := before.Owner(key)
		loads[owner]++
		most = max(most, loads[owner])
		if now, _ := after.Owner(key); now != owner {
			moved++
		}
	}
	return share{float64(most) * shards / keys, float64(moved) / keys}
}

// The limits are published measurements: 1,000 tokens, 10 shards, 100,000 keys.
func TestSharesAreEven(t *testing.T) {
	const sets = 5
	var moved float64
	for set := range sets {
		m := measure(set, 1000)
		if m.maxOverMean > 1.05 {
			t.Errorf("shards %d: one has %.3f times the mean, want at most 1.05", set, m.maxOverMean)
		}
		moved += m.moved / sets
	}
	if moved > 0.092 {
		t.Errorf("one more shard moves %.1f %% of the keys, want at most 9.2 %%", 100*moved)
	}
}

func TestOnlyKeysOfChangedShardMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := drawShards(t, 2)
		tokens := rapid.IntRange(1, 50).Draw(t, "tokens")
		all, fewer := ring.New(shards, tokens), ring.New(shards[1:], tokens)
		for _, key := range names("key", 200) {
			with, _ := all.Owner(key)
			without, _ := fewer.Owner(key)
			if with != without && with != shards[0] {
				t.Fatalf("%s goes from %s to %s when %s leaves", key, with, without, shards[0])
			}
		}
	})
}

func TestOrderOfShardsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := drawShards(t, 1)
		another := append(rapid.Permutation(shards).Draw(t, "another order"), shards[0])
		a, b := ring.New(shards, 20), ring.New(another, 20)
		for _, key := range names("key", 100) {
			if x, _ := a.Owner(key); x == "" || x != owner(b, key) {
				t.Fatalf("%s belongs to %q and to %q", key, x, owner(b, key))
			}
		}
	})
}

func owner(r *ring.Ring, key string) string {
	name, _ := r.Owner(key)
	return name
}

func TestWalkYieldsEachShardOnceOwnerFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := drawShards(t, 1)
		r, key := ring.New(shards, rapid.IntRange(1, 20).Draw(t, "tokens")), rapid.String().Draw(t, "key")
		walk := slices.Collect(r.Walk(key))
		if walk[0] != owner(r, key) {
			t.Errorf("it begins with %s, and %s is the owner", walk[0], owner(r, key))
		}
		slices.Sort(walk)
		slices.Sort(shards)
		if !slices.Equal(walk, shards) {
			t.Errorf("it meets %v of %v", walk, shards)
		}
	})
}

func TestRingWithoutShardsHasNoOwner(t *testing.T) {
	for claim, r := range map[string]*ring.Ring{"of no shards": ring.New(nil, 10), "zero": {}} {
		if name, ok := r.Owner("key"); ok {
			t.Errorf("%s: %q", claim, name)
		}
		for name := range r.Walk("key") {
			t.Errorf("%s: the walk meets %q", claim, name)
		}
	}
}

func BenchmarkBalance(b *testing.B) {
	for _, tokens := range []int{100, 1000} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			var sum, worst share
			sets := 0
			for ; b.Loop(); sets++ {
				m := measure(sets, tokens)
				sum.maxOverMean, sum.moved = sum.maxOverMean+m.maxOverMean, sum.moved+m.moved
				worst.maxOverMean, worst.moved = max(worst.maxOverMean, m.maxOverMean), max(worst.moved, m.moved)
			}
			b.ReportMetric(sum.maxOverMean/float64(sets), "max/mean")
			b.ReportMetric(worst.maxOverMean, "max/mean-worst")
			b.ReportMetric(sum.moved/float64(sets), "moved-on-add")
			b.ReportMetric(worst.moved, "moved-on-add-worst")
		})
	}
}

func BenchmarkOwner(b *testing.B) {
	for _, shards := range []int{10, 100} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			r, keys := ring.New(names("controller", shards), 1000), names("object/apps/deployments/shop/web", 1000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := r.Owner(keys[i%len(keys)]); !ok {
					b.Fatal("no owner")
				}
			}
		})
	}
}
