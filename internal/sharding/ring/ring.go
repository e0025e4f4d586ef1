// Package ring decides which shard of a ClusterRing works on which object. It derives the state of a shard from its Lease, selects
// the available shards, and determines the action by which an object gets to the right shard.
//
// It is pure.
package ring

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Ring implements consistent hashing: each shard has tokens on a circle, and a key belongs to the shard of a token near it. A shard
// that joins takes keys from all others, and a shard that leaves spreads its keys over all others. No other key moves.
//
// A key has several positions on the circle, and uses the one with the smallest distance to the next token (multi-probe consistent
// hashing, Appleton and O'Reilly, 2015). A shard whose tokens happen to be far from the preceding ones does not get the whole gap, so
// that the distribution is more even than with one position: see BenchmarkBalance.
//
// It is immutable, so goroutines may share it. The zero value has no shards.
type Ring struct {
	shards []string
	tokens []token
}

type token struct {
	at    uint64
	shard int32
}

// probes is the number of positions of a key.
const probes = 5

// New returns a ring of shards, each with tokensPerShard tokens. The order of the shards does not matter.
func New(shards []string, tokensPerShard int) *Ring {
	r := &Ring{shards: slices.Compact(slices.Sorted(slices.Values(shards)))}
	r.tokens = make([]token, 0, len(r.shards)*tokensPerShard)
	for i, shard := range r.shards {
		for n := range tokensPerShard {
			r.tokens = append(r.tokens, token{at: hash(shard, n), shard: int32(i)})
		}
	}
	slices.SortFunc(r.tokens, func(a, b token) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.shard, b.shard)) })
	return r
}

// hash returns the nth position of a text on the circle.
func hash(text string, n int) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(0)
	_, _ = digest.WriteString(text)
	var number [9]byte // a zero byte, which no name contains, separates text and number, so that no two pairs have the same encoding
	binary.BigEndian.PutUint64(number[1:], uint64(n))
	_, _ = digest.Write(number[:])
	return digest.Sum64()
}

// Shards returns the shards of the ring, sorted by name.
func (r *Ring) Shards() []string { return r.shards }

// Owner returns the shard that a key belongs to. It returns false if there is none.
func (r *Ring) Owner(key string) (string, bool) {
	if len(r.tokens) == 0 {
		return "", false
	}
	return r.shards[r.tokens[r.nearest(key)].shard], true
}

// Walk yields the shards in order of preference for a key, each once: its owner, and then those of the following tokens.
func (r *Ring) Walk(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(r.tokens) == 0 {
			return
		}
		seen, left := make([]bool, len(r.shards)), len(r.shards)
		for i := r.nearest(key); left > 0; i = (i + 1) % len(r.tokens) {
			shard := r.tokens[i].shard
			if seen[shard] {
				continue
			}
			seen[shard] = true
			if left--; !yield(r.shards[shard]) {
				return
			}
		}
	}
}

// nearest returns the index of the token with the smallest distance after one of the key's positions.
func (r *Ring) nearest(key string) int {
	best, least := 0, uint64(math.MaxUint64)
	for n := range probes {
		at := hash(key, n)
		i, _ := slices.BinarySearchFunc(r.tokens, at, func(t token, at uint64) int { return cmp.Compare(t.at, at) })
		i %= len(r.tokens)
		// Unsigned subtraction yields the distance on the circle also across its end.
		if distance := r.tokens[i].at - at; distance < least {
			best, least = i, distance
		}
	}
	return best
}
