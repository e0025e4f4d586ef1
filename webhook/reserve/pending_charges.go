package reserve

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Break-glass removals are admitted while a core cluster is unreachable, and become pending charges. The next write of
// this replica to the protector, for any purpose, charges them, so that this replica decides nothing without them. If the
// cell has entered or left since, its share or its protector is charged instead (pending_routes.go). A replica that exits
// before that loses its pending charges, and no other replica has them.
//
// A break-glass removal in a cell without an entry, which has not been counted yet or lacks its status after the protector was recreated, is also a
// pending charge: there is no history to reserve it in. The share of the cell may decide before long, and another removal must not get its budget (rule S6).

const (
	// pendingWriteInterval is the time between two attempts to write the pending charges. pendingWriteTimeout limits one attempt.
	pendingWriteInterval = 250 * time.Millisecond
	pendingWriteTimeout  = 5 * time.Second
	// rejectedInterval is the time between two attempts to write a charge that the API server rejects as invalid.
	rejectedInterval = time.Minute
)

// uncountedLimit is how long a charge waits for the entry of its cell: the default admission deadline, after which the removal can no longer take effect.
func uncountedLimit() time.Duration { return (*v1alpha1.CellSpec)(nil).AdmissionDeadlineOrDefault() }

// isUncharged reports whether a break-glass removal was admitted over a denial and not reserved, because its cell has no entry.
func isUncharged(v quota.Verdict) bool { return v.Outcome == quota.Waived && v.Forced != "" }

// PendingCharge is a removal to charge to a protector or to its share.
type PendingCharge struct {
	quota.Removal
	// Of identifies the protector, as its shares do.
	Of v1alpha1.ShareOf
	// rejectedAt is when the API server last rejected it. It is zero for a charge that was not rejected.
	rejectedAt time.Time
}

// NewPendingCharge returns the pending charge of a removal for a protector or a share.
func NewPendingCharge(removal quota.Removal, p *v1alpha1.PodProtector) PendingCharge {
	if p.Spec.ShareOf != nil {
		return PendingCharge{Removal: removal, Of: *p.Spec.ShareOf}
	}
	return PendingCharge{
		Removal: removal, Of: v1alpha1.ShareOf{Name: p.Name, UID: string(p.UID), FormerUID: p.Annotations[v1alpha1.AnnotationRestored]},
	}
}

// PendingCharges are the pending charges of the protectors of a core, at most one for each pod. They are safe for concurrent
// use.
type PendingCharges struct {
	// added receives a value when a charge was added.
	added chan struct{}

	mu          sync.Mutex
	byProtector map[types.NamespacedName][]PendingCharge
}

func newPendingCharges() *PendingCharges {
	return &PendingCharges{added: make(chan struct{}, 1), byProtector: map[types.NamespacedName][]PendingCharge{}}
}

// Add adds a pending charge. It replaces an earlier one for the same pod.
func (c *PendingCharges) Add(protector types.NamespacedName, charge PendingCharge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(c.byProtector[protector]), func(other PendingCharge) bool {
		return other.Cell == charge.Cell && other.PodUID == charge.PodUID
	})
	c.byProtector[protector] = append(rest, charge)
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// Of returns the pending charges of a protector.
func (c *PendingCharges) Of(protector types.NamespacedName) []PendingCharge {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.byProtector[protector])
}

// ops returns the pending charges of a protector that were not rejected recently, as operations.
func (c *PendingCharges) ops(protector types.NamespacedName, now time.Time) (ops []historyOp) {
	for _, charge := range c.Of(protector) {
		if now.Sub(charge.rejectedAt) < rejectedInterval {
			continue
		}
		ops = append(ops, historyOp{removal: charge.Removal, claim: &quota.Claim{}, isPending: true})
	}
	return ops
}

// removeCharged removes the charges that a write has decided for good. A charge stays while another object decides for its cell, and while
// the protector does not exist: it may be recreated, and a share may have been deleted because its cell has left. It also stays while its cell has no
// entry and the removal can still take effect.
func (c *PendingCharges) removeCharged(protector types.NamespacedName, written []historyOp, results []opResult, now time.Time) {
	for i, op := range written {
		switch {
		case results[i].kind != resultDecided:
		case isUncharged(results[i].verdict) && now.Sub(op.removal.At) < uncountedLimit():
		case results[i].verdict.Outcome.Admitted(), results[i].verdict.Outcome == quota.DeniedNameless: // a pod without a UID is never charged
			c.remove(protector, op.removal.Token)
		}
	}
}

// setAside keeps the charge with a token out of all writes for a while, because the API server rejected it.
func (c *PendingCharges) setAside(protector types.NamespacedName, token string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.byProtector[protector] {
		if charge := &c.byProtector[protector][i]; charge.Token == token {
			charge.rejectedAt = now
		}
	}
}

// remove removes the charge with a token.
func (c *PendingCharges) remove(protector types.NamespacedName, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(c.byProtector[protector]), func(charge PendingCharge) bool { return charge.Token == token })
	if c.byProtector[protector] = left; len(left) == 0 {
		delete(c.byProtector, protector)
	}
}

// Protectors returns the protectors with pending charges, in order.
func (c *PendingCharges) Protectors() []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.byProtector), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// Count returns the number of pending charges.
func (c *PendingCharges) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := 0
	for _, charges := range c.byProtector {
		number += len(charges)
	}
	return number
}

// FlushUntilDone flushes pending charges of protectors for which no removal is requested, until ctx ends. It flushes them side by side: until a charge is
// written, other replicas give its budget out.
func (c *PendingCharges) FlushUntilDone(ctx context.Context, flush func(context.Context, types.NamespacedName)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.added:
		}
		for protectors := c.Protectors(); len(protectors) > 0; protectors = c.Protectors() {
			var flushes sync.WaitGroup
			for _, protector := range protectors {
				flushes.Go(func() { flush(ctx, protector) })
			}
			flushes.Wait()
			select {
			case <-ctx.Done():
				return
			case <-time.After(pendingWriteInterval):
			}
		}
	}
}
