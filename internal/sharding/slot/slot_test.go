package slot_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Namespaces keep their slots: the shards of two releases in one cluster must agree.
func TestSlotOfNamespaceNeverChanges(t *testing.T) {
	for namespace, want := range map[string]int{"default": 150, "kube-system": 255, "shop": 111, "": 153} {
		if got := slot.Of(namespace); got != want {
			t.Errorf("namespace %q is in slot %d, want %d", namespace, got, want)
		}
	}
}

func TestNamespacesAreSpreadOverAllSlots(t *testing.T) {
	const namespaces = 100_000
	var most, total int
	of := map[int]int{}
	for i := range namespaces {
		n := slot.Of(fmt.Sprintf("team-%d", i))
		of[n]++
		most, total = max(most, of[n]), total+1
	}
	if len(of) != slot.Count {
		t.Errorf("%d slots have a namespace, want %d", len(of), slot.Count)
	}
	if mean := total / slot.Count; most > mean*5/4 {
		t.Errorf("one slot has %d of %d namespaces, and the mean is %d", most, namespaces, mean)
	}
}

func drawSet(t *rapid.T, label string) slot.Set {
	var s slot.Set
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, slot.Count-1), 0, 300).Draw(t, label) {
		s = s.With(n)
	}
	return s
}

func TestSetParsesItsString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSet(t, "set")
		read, err := slot.Parse(s.String())
		if err != nil || read != s {
			t.Fatalf("%q reads as %q, %v", s, read, err)
		}
	})
	for text, want := range map[string]string{"": "", "0": "0", "255": "255", "3,1,2": "1-3", "0-255": "0-255", "5-5": "5", "7-9,8-12": "7-12"} {
		if s, err := slot.Parse(text); err != nil || s.String() != want {
			t.Errorf("%q reads as %q, %v; want %q", text, s, err, want)
		}
	}
	for _, text := range []string{"256", "-1", "a", "3-", "-", "9-3", "1,,2", " 1", "1-2-3", "+1", "99999999999999999999"} {
		if s, err := slot.Parse(text); err == nil || !slot.Recorded(text).Empty() {
			t.Errorf("%q reads as %q, want an error", text, s)
		}
	}
}

func TestSetOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSet(t, "a"), drawSet(t, "b")
		length := 0
		for n := range slot.Count {
			for claim, got := range map[string][2]bool{
				"or": {a.Or(b).Has(n), a.Has(n) || b.Has(n)}, "and": {a.And(b).Has(n), a.Has(n) && b.Has(n)},
				"minus": {a.Minus(b).Has(n), a.Has(n) && !b.Has(n)}, "without": {a.Complement().Has(n), !a.Has(n)},
			} {
				if got[0] != got[1] {
					t.Fatalf("%s of %q and %q has %d: %v", claim, a, b, n, got[0])
				}
			}
			if a.Has(n) {
				length++
			}
		}
		if a.Len() != length || a.Empty() != (length == 0) || len(slices.Collect(a.Each())) != length {
			t.Fatalf("%q has %d slots, and tells %d", a, length, a.Len())
		}
	})
	if slot.All().Len() != slot.Count {
		t.Errorf("all are %d", slot.All().Len())
	}
}

func shardsOf(names []string) *ring.Shards {
	states := map[string]v1alpha1.ShardState{}
	for _, name := range names {
		states[name] = v1alpha1.ShardReady
	}
	return ring.NewShards(states, 1000)
}

func drawShards(t *rapid.T, least int) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,6}[a-z0-9]`), least, 9, rapid.ID).Draw(t, "shards")
}

func TestEachSlotBelongsToOneShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := drawShards(t, 1)
		shares := slot.ByShard(shardsOf(names))
		var all slot.Set
		total := 0
		for shard, share := range shares {
			if !slices.Contains(names, shard) {
				t.Fatalf("%s has slots, and is no shard", shard)
			}
			all, total = all.Or(share), total+share.Len()
			if most := (slot.Count*105 + 100*len(names) - 1) / (100 * len(names)); share.Len() > most {
				t.Fatalf("%s has %d slots of %d shards, want at most %d", shard, share.Len(), len(names), most)
			}
		}
		if all != slot.All() || total != slot.Count {
			t.Fatalf("%d slots have an owner, %d shares in sum", all.Len(), total)
		}
		other := rapid.Permutation(names).Draw(t, "another order")
		if !maps.Equal(shares, slot.ByShard(shardsOf(other))) {
			t.Fatal("the order of shards matters")
		}
	})
}

func TestNoSlotsWithoutShards(t *testing.T) {
	if shares := slot.ByShard(shardsOf(nil)); len(shares) > 0 {
		t.Errorf("%v", shares)
	}
}

// An additional shard takes its share, and little else moves.
func TestFewSlotsMoveWhenShardJoins(t *testing.T) {
	for shards := 1; shards < 8; shards++ {
		const sets = 20
		moved := 0
		for set := range sets {
			var names []string
			for i := range shards + 1 {
				names = append(names, fmt.Sprintf("aggregator-%d-%d", set, i))
			}
			before, after := slot.ByShard(shardsOf(names[:shards])), slot.ByShard(shardsOf(names))
			for _, name := range names {
				moved += after[name].Minus(before[name]).Len()
			}
		}
		if least, mean := slot.Count/(shards+1), moved/sets; mean > least*8/5 {
			t.Errorf("from %d to %d shards %d slots move, and %d would do", shards, shards+1, mean, least)
		}
	}
}

func TestClaimable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawSet(t, "wanted")
		held := []slot.Holding{{Shard: "self", Slots: drawSet(t, "own")}, {Shard: "a", Holder: "a_1", Slots: drawSet(t, "of a")}, {Shard: "b", Slots: drawSet(t, "of b")}}
		dead := map[string]bool{"a": rapid.Bool().Draw(t, "a is dead"), "b": rapid.Bool().Draw(t, "b is dead")}
		got := slot.Claimable("self", wanted, held, func(shard string) bool { return dead[shard] })
		for n := range slot.Count {
			want := wanted.Has(n) && (dead["a"] || !held[1].Slots.Has(n)) && (dead["b"] || !held[2].Slots.Has(n))
			if got.Has(n) != want {
				t.Fatalf("slot %d may be claimed: %v, want %v", n, got.Has(n), want)
			}
		}
		if unowned := slot.Unowned(held); unowned != held[0].Slots.Or(held[1].Slots).Or(held[2].Slots).Complement() {
			t.Fatalf("unowned are %q", unowned)
		}
		for holder, want := range map[string]slot.Set{"a_1": held[1].Slots, "a_2": {}, "": {}} {
			if have := slot.HeldBy(held, "a", holder); have != want {
				t.Fatalf("%q of shard a has %q, want %q", holder, have, want)
			}
		}
	})
}
