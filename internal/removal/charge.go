package removal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// Charge is one protector that covers a pod, and is charged for its removal.
type Charge struct {
	// Core is the name of the core cluster that has the protector.
	Core      string
	Key       types.NamespacedName
	Protector *v1alpha1.PodProtector
	// Vanished tells that the protector is not there although nobody has released it.
	Vanished bool
	// Domain is that of the pod, where the protector minds the loss of others; Unlocated is why it is not known.
	Domain    quota.Domain
	Unlocated error
}

// String is core/namespace/name.
func (c Charge) String() string { return c.Core + "/" + c.Key.String() }

// Ask is what is asked of the protector.
func (c Charge) Ask(attempt quota.Removal) quota.Removal {
	attempt.Domain = c.Domain
	return attempt
}

// Passes tells whether a removal needs no look at protectors. A pod that is going must go, or nodes never finish their work.
func (r Request) Passes() bool {
	return podhealth.FactsOf(r.Pod).Gone() || r.Pod.Spec.NodeName == ""
}

// Attempt is what is asked of protectors, at a time and with a token that no other attempt has.
func (r Request) Attempt(cell string, at time.Time, token string) quota.Removal {
	return quota.Removal{
		Cell: cell, PodUID: r.Pod.UID, PodName: r.PodName, Operation: r.Operation,
		At: at, Token: token, Force: r.Forced(), Generation: r.Generation, Containers: r.Containers,
	}
}

// Charged leaves of the protectors that cover a pod, in their own slice, those that its removal costs budget, in the order in which they
// are asked. When there is none it says why not. belongs tells whether the pod belongs to the cell at all.
func Charged(covering []Charge, belongs bool, cell string, r Request, now time.Time) (charges []Charge, free VerdictReason) {
	facts, guarded := podhealth.FactsOf(r.Pod), false
	charges = slices.DeleteFunc(covering, func(c Charge) bool {
		if floor, known := quota.Floor(c.Protector); c.Vanished && known && floor == 0 {
			return true // it would refuse nothing
		}
		if !c.Guards(r.Operation) {
			return true
		}
		guarded = true
		health := c.Health(facts, cell, now)
		return !health.Charged(c.Protector.Spec.Criterion) && (r.Criterion == "" || !health.Meets(r.Criterion))
	})
	slices.SortFunc(charges, func(a, b Charge) int { return cmp.Compare(a.String(), b.String()) })
	switch {
	case !guarded && !belongs:
		return charges, VerdictOtherCell
	case !guarded:
		return charges, VerdictUnprotected
	default:
		return charges, VerdictNotAvailable
	}
}

// Guards tells whether an operation costs the protector budget. One that is older than the field guards removals.
func (c Charge) Guards(operation v1alpha1.Operation) bool {
	operations := c.Protector.Spec.Operations
	if len(operations) == 0 {
		return operation == v1alpha1.OperationDelete || operation == v1alpha1.OperationEvict
	}
	return slices.Contains(operations, operation)
}

// Health is that of a pod of a cell, as the protector sees it.
func (c Charge) Health(facts podhealth.Facts, cell string, now time.Time) podhealth.Health {
	return facts.At(c.Protector.Spec.MinReadySeconds, noEarlierThan(c.Protector, cell, now))
}

// noEarlierThan is the time at which a pod's age is judged: now, but not before the aggregator counted. A pod
// that its clock took for available must not pass uncharged because ours is behind.
func noEarlierThan(protector *v1alpha1.PodProtector, cellID string, now time.Time) time.Time {
	if cell := quota.CellOf(protector, cellID); cell != nil && cell.Aggregation.LastEventTime.After(now) {
		return cell.Aggregation.LastEventTime.Time
	}
	return now
}

// Minds is the label of nodes by which a protector minds the loss of a domain; empty if it does not.
func Minds(p *v1alpha1.PodProtector) string {
	spread := p.Spec.Spread
	if spread == nil || !spread.TolerateDomainLoss || spread.TopologyKey == v1alpha1.TopologyKeyCell {
		return ""
	}
	if floor, known := quota.Floor(p); known && floor == 0 {
		return ""
	}
	return spread.TopologyKey
}

// LabelOf is a label of a pod's node, whose labels were read or could not be: the domain of the pod where that is asked for.
func LabelOf(node string, labels map[string]string, unread error, key string) (string, error) {
	if unread != nil {
		return "", fmt.Errorf("node %q cannot be read: %w", node, unread)
	}
	value, ok := labels[key]
	if !ok {
		return "", fmt.Errorf("node %q has no label %s", node, key)
	}
	return value, nil
}
