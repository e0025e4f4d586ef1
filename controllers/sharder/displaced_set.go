package sharder

import (
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// displacedSet is a set of objects as a Bloom filter, whose size does not depend on their number. It excludes an object with certainty, and
// includes one with a small error rate. A false positive costs one request and has no other effect.
type displacedSet struct{ bits []uint64 }

const (
	// displacedBits are 512 KiB: with 400,000 strays, the filter includes one in 50 other objects by mistake.
	displacedBits   = 1 << 22
	displacedHashes = 4
)

func newDisplacedSet() *displacedSet { return &displacedSet{bits: make([]uint64, displacedBits/64)} }

func (s *displacedSet) add(key id) {
	for bit := range bitsOf(key) {
		s.bits[bit/64] |= 1 << (bit % 64)
	}
}

// mayContain reports whether an object may be a stray.
func (s *displacedSet) mayContain(key id) bool {
	for bit := range bitsOf(key) {
		if s.bits[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// bitsOf returns the bits of an object. The two halves of one hash yield as many as are needed (Kirsch and Mitzenmacher, 2006).
func bitsOf(key id) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		hash := xxhash.Sum64String(strings.Join([]string{key.Group, key.Resource, key.namespace, key.name}, "/"))
		for i := range uint64(displacedHashes) {
			if !yield((hash>>32 + i*(hash|1)) % displacedBits) {
				return
			}
		}
	}
}
