package sharder

import (
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// strays are objects, of which it can be told for certain that one is not among them, and but for a small chance that it is: a Bloom
// filter, whose size does not depend on how many there are. An object that seems to be one costs a request, and that is all.
type strays struct{ bits []uint64 }

const (
	// strayBits are 512 KiB: of 400,000 strays, one other object in 50 seems to be one.
	strayBits   = 1 << 22
	strayHashes = 4
)

func newStrays() *strays { return &strays{bits: make([]uint64, strayBits/64)} }

func (s *strays) add(of id) {
	for bit := range places(of) {
		s.bits[bit/64] |= 1 << (bit % 64)
	}
}

// may tells whether an object may be a stray.
func (s *strays) may(of id) bool {
	for bit := range places(of) {
		if s.bits[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// places are the bits of an object. The two halves of one hash make as many as are needed (Kirsch and Mitzenmacher, 2006).
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
