// Package dice draws the random values of a simulation from its seed. A value depends on the seed and on its purpose. It does not depend
// on the order in which parts of the simulation ask at one instant: the Go scheduler determines that order, not the seed.
package dice

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Dice draws the random values of one simulation. It is safe for concurrent use.
type Dice struct {
	seed uint64

	mu    sync.Mutex
	drawn map[string]uint64
}

// New returns the dice of a seed.
func New(seed uint64) *Dice { return &Dice{seed: seed, drawn: map[string]uint64{}} }

// Rand returns the random source for the next use of a name. Names are drawn independently of each other.
func (d *Dice) Rand(name string) *rand.Rand {
	d.mu.Lock()
	n := d.drawn[name]
	d.drawn[name]++
	d.mu.Unlock()
	return rand.New(rand.NewPCG(d.seed^fnv(name), n*0x9e3779b97f4a7c15+d.seed))
}

// Chance reports whether an event of probability p occurs.
func (d *Dice) Chance(p float64, name string) bool { return p > 0 && d.Rand(name).Float64() < p }

// Between returns a time from least to most, with nanosecond resolution: two things hardly ever happen at once.
func (d *Dice) Between(least, most time.Duration, name string) time.Duration {
	return least + time.Duration(d.Rand(name).Int64N(int64(most-least)+1))
}

// fnv is FNV-1a: hash/maphash differs from process to process.
func fnv(s string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	return sum
}
