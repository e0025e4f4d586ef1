package webhook

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Break-glass removals are admitted while a core cluster is unreachable, and become pending charges. The next write of
// this replica to the protector, for any purpose, charges them, so that this replica decides nothing without them. A
// replica that exits before that loses its pending charges, and no other replica has them.

const (
	// repayPause is the time between two attempts to write the pending charges. repayTime limits one attempt.
	repayPause = 250 * time.Millisecond
	repayTime  = 5 * time.Second
)

// debts are the pending charges of the protectors of a core, at most one for each pod. They are safe for concurrent
// use.
type debts struct {
	// made receives a value when a charge was added.
	made chan struct{}

	mu   sync.Mutex
	owed map[types.NamespacedName][]quota.Removal
}

func newDebts() *debts {
	return &debts{made: make(chan struct{}, 1), owed: map[types.NamespacedName][]quota.Removal{}}
}

// owe adds a pending charge. It replaces an earlier one for the same pod.
func (d *debts) owe(protector types.NamespacedName, removal quota.Removal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(d.owed[protector]), func(r quota.Removal) bool {
		return r.Cell == removal.Cell && r.PodUID == removal.PodUID
	})
	d.owed[protector] = append(others, removal)
	select {
	case d.made <- struct{}{}:
	default:
	}
}

// of returns the pending charges of a protector, as asks.
func (d *debts) of(protector types.NamespacedName) []ask {
	d.mu.Lock()
	defer d.mu.Unlock()
	var asks []ask
	for _, removal := range d.owed[protector] {
		asks = append(asks, ask{removal: removal, claim: &quota.Claim{}})
	}
	return asks
}

// paid removes the charges that were written.
func (d *debts) paid(protector types.NamespacedName, asks []ask) {
	if len(asks) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(d.owed[protector]), func(r quota.Removal) bool {
		return slices.ContainsFunc(asks, func(a ask) bool { return a.removal.Token == r.Token })
	})
	if d.owed[protector] = left; len(left) == 0 {
		delete(d.owed, protector)
	}
}

// protectors returns the protectors with pending charges, in order.
func (d *debts) protectors() []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Keys(d.owed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// number returns the number of pending charges.
func (d *debts) number() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	number := 0
	for _, removals := range d.owed {
		number += len(removals)
	}
	return number
}

// repay writes pending charges of protectors for which no removal is requested, until ctx ends.
func (c *core) repay(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.debts.made:
		}
		for owing := c.debts.protectors(); len(owing) > 0; owing = c.debts.protectors() {
			for _, protector := range owing {
				c.repayOne(ctx, protector)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(repayPause):
			}
		}
	}
}

func (c *core) repayOne(ctx context.Context, protector types.NamespacedName) {
	ctx, cancel := context.WithTimeout(ctx, repayTime)
	defer cancel()
	if _, err := c.flights.Do(ctx, protector, ask{repays: true}); err == nil {
		c.log.Info("A protector was charged for what had been forced while the core cluster did not answer", "protector", protector)
	}
}
