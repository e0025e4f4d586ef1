// Package dice draws the luck of a simulation from its seed. What is drawn depends on the seed and on what it is
// for, not on the order in which parts of the simulation happen to ask at one instant: that order is the Go
// scheduler's, and no seed.
package dice

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Dice are the luck of one simulation. They are safe for concurrent use.
type Dice struct {
	seed uint64

	mu    sync.Mutex
	drawn map[string]uint64
}

// New returns the dice of a seed.
func New(seed uint64) *Dice { return &Dice{seed: seed, drawn: map[string]uint64{}} }

// For returns the luck of the next thing of that name: names are drawn independently of each other.
func (d *Dice) For(name string) *rand.Rand {
	d.mu.Lock()
	n := d.drawn[name]
	d.drawn[name]++
	d.mu.Unlock()
	return rand.New(rand.NewPCG(d.seed^fnv(name), n*0x9e3779b97f4a7c15+d.seed))
}

// Chance is true with the probability p.
func (d *Dice) Chance(p float64, name string) bool { return p > 0 && d.For(name).Float64() < p }

// Between returns a time from least to most, to the nanosecond: two things hardly ever happen at once.
func (d *Dice) Between(least, most time.Duration, name string) time.Duration {
	return least + time.Duration(d.For(name).Int64N(int64(most-least)+1))
}

// fnv is FNV-1a: hash/maphash differs from process to process.
func fnv(s string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	return sum
}
