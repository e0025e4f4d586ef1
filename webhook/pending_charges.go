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
	// pendingWriteInterval is the time between two attempts to write the pending charges. pendingWriteTimeout limits one attempt.
	pendingWriteInterval = 250 * time.Millisecond
	pendingWriteTimeout  = 5 * time.Second
)

// pendingCharges are the pending charges of the protectors of a core, at most one for each pod. They are safe for concurrent
// use.
type pendingCharges struct {
	// added receives a value when a charge was added.
	added chan struct{}

	mu          sync.Mutex
	byProtector map[types.NamespacedName][]quota.Removal
}

func newPendingCharges() *pendingCharges {
	return &pendingCharges{added: make(chan struct{}, 1), byProtector: map[types.NamespacedName][]quota.Removal{}}
}

// add adds a pending charge. It replaces an earlier one for the same pod.
func (c *pendingCharges) add(protector types.NamespacedName, removal quota.Removal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(c.byProtector[protector]), func(r quota.Removal) bool {
		return r.Cell == removal.Cell && r.PodUID == removal.PodUID
	})
	c.byProtector[protector] = append(rest, removal)
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// ops returns the pending charges of a protector, as operations.
func (c *pendingCharges) ops(protector types.NamespacedName) []historyOp {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ops []historyOp
	for _, removal := range c.byProtector[protector] {
		ops = append(ops, historyOp{removal: removal, claim: &quota.Claim{}})
	}
	return ops
}

// markWritten removes the charges that were written.
func (c *pendingCharges) markWritten(protector types.NamespacedName, written []historyOp) {
	if len(written) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(c.byProtector[protector]), func(r quota.Removal) bool {
		return slices.ContainsFunc(written, func(op historyOp) bool { return op.removal.Token == r.Token })
	})
	if c.byProtector[protector] = left; len(left) == 0 {
		delete(c.byProtector, protector)
	}
}

// protectors returns the protectors with pending charges, in order.
func (c *pendingCharges) protectors() []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.byProtector), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// count returns the number of pending charges.
func (c *pendingCharges) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := 0
	for _, removals := range c.byProtector {
		number += len(removals)
	}
	return number
}

// flushUntilDone flushes pending charges of protectors for which no removal is requested, until ctx ends.
func (c *pendingCharges) flushUntilDone(ctx context.Context, flush func(context.Context, types.NamespacedName)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.added:
		}
		for protectors := c.protectors(); len(protectors) > 0; protectors = c.protectors() {
			for _, protector := range protectors {
				flush(ctx, protector)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pendingWriteInterval):
			}
		}
	}
}
