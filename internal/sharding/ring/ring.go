// Package ring decides which shard of a ClusterRing works on which object: what a shard's Lease tells of it, which shards there
// are to choose from, and what has to happen to an object for the right one to have it.
//
// It is pure: values in, values out.
package ring

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Ring is consistent hashing: each shard has tokens on a circle, and a key belongs to the shard of a token near it. A shard that
// comes takes keys from all others, and one that goes leaves its keys to all others; no other key moves.
//
// A key has several places on the circle, and goes by the one that is nearest to the token after it (multi-probe consistent
// hashing, Appleton and O'Reilly, 2015). A shard whose tokens happen to be far from those before them does not get all of what
// lies between, so that shares are more even than those of one place: see BenchmarkBalance.
//
// It never changes, so goroutines may share it. The zero value has no shards.
type Ring struct {
	shards []string
	tokens []token
}

type token struct {
	at    uint64
	shard int32
}

// probes is the number of places of a key.
const probes = 5

// New makes a ring of shards, each with so many tokens. Their order does not matter.
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

// hash is the nth place of a text on the circle.
func hash(text string, n int) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(0)
	_, _ = digest.WriteString(text)
	var number [9]byte // after a byte that no name has, so that no two texts and numbers are written alike
	binary.BigEndian.PutUint64(number[1:], uint64(n))
	_, _ = digest.Write(number[:])
	return digest.Sum64()
}

// Shards are those of the ring, in the order of their names.
func (r *Ring) Shards() []string { return r.shards }

// Owner is the shard that a key belongs to; false when there is none.
func (r *Ring) Owner(key string) (string, bool) {
	if len(r.tokens) == 0 {
		return "", false
	}
	return r.shards[r.tokens[r.nearest(key)].shard], true
}

// Walk is the shards in the order in which a key would rather belong to them, each once: its owner, and then those of the tokens
// that follow.
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

// nearest is the token that follows closest on one of the key's places.
func (r *Ring) nearest(key string) int {
	best, least := 0, uint64(math.MaxUint64)
	for n := range probes {
		at := hash(key, n)
		i, _ := slices.BinarySearchFunc(r.tokens, at, func(t token, at uint64) int { return cmp.Compare(t.at, at) })
		i %= len(r.tokens)
		// The difference is that on the circle also where it passes the end.
		if distance := r.tokens[i].at - at; distance < least {
			best, least = i, distance
		}
	}
	return best
}
