package sharder

import (
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// strays is a set of objects as a Bloom filter, whose size does not depend on their number. It excludes an object with certainty, and
// includes one with a small error rate. A false positive costs one request and has no other effect.
type strays struct{ bits []uint64 }

const (
	// strayBits are 512 KiB: with 400,000 strays, the filter includes one in 50 other objects by mistake.
	strayBits   = 1 << 22
	strayHashes = 4
)

func newStrays() *strays { return &strays{bits: make([]uint64, strayBits/64)} }

func (s *strays) add(of id) {
	for bit := range places(of) {
		s.bits[bit/64] |= 1 << (bit % 64)
	}
}

// may reports whether an object may be a stray.
func (s *strays) may(of id) bool {
	for bit := range places(of) {
		if s.bits[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// places returns the bits of an object. The two halves of one hash yield as many as are needed (Kirsch and Mitzenmacher, 2006).
func places(of id) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		hash := xxhash.Sum64String(strings.Join([]string{of.Group, of.Resource, of.namespace, of.name}, "/"))
		for i := range uint64(strayHashes) {
			if !yield((hash>>32 + i*(hash|1)) % strayBits) {
				return
			}
		}
	}
}
