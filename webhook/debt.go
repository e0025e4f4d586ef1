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

// What is forced while a core cluster does not answer goes all the same, and is owed: its protector is charged for it in the next
// write of this replica, whatever that is for, so that nothing is decided without it. A replica that ends before has forgotten
// it, and the others know nothing of it.

const (
	// repayPause is the time between two attempts to pay what is owed, and repayTime bounds one.
	repayPause = 250 * time.Millisecond
	repayTime  = 5 * time.Second
)

// debts are what the protectors of a core are to be charged for yet, each pod once. They are safe for concurrent use.
type debts struct {
	// made has something when a debt was made.
	made chan struct{}

	mu   sync.Mutex
	owed map[types.NamespacedName][]quota.Removal
}

func newDebts() *debts {
	return &debts{made: make(chan struct{}, 1), owed: map[types.NamespacedName][]quota.Removal{}}
}

// owe notes a removal.
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

// of is what a protector is to be charged for.
func (d *debts) of(protector types.NamespacedName) []ask {
	d.mu.Lock()
	defer d.mu.Unlock()
	var asks []ask
	for _, removal := range d.owed[protector] {
		asks = append(asks, ask{removal: removal, claim: &quota.Claim{}})
	}
	return asks
}

// paid takes off what a protector was charged for.
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

// protectors are those that are to be charged.
func (d *debts) protectors() []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Keys(d.owed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// number is how many removals are owed.
func (d *debts) number() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	number := 0
	for _, removals := range d.owed {
		number += len(removals)
	}
	return number
}

// repay pays what is owed where nobody asks for a removal, until ctx ends.
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
