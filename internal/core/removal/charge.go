package removal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Charge is one protector that covers a pod, and is charged for its removal.
type Charge struct {
	// Core is the name of the core cluster that has the protector.
	Core      string
	Key       types.NamespacedName
	Protector *v1alpha1.PodProtector
	// Vanished tells that the protector is not there although nobody has released it.
	Vanished bool
	// LeavesCell tells that a relabel takes the pod out of the cell, as its core has it.
	LeavesCell bool
	// Operation is the one whose charge the removal is; empty until Charged has said so. A request that updates and relabels a pod is one or
	// the other for each protector.
	Operation v1alpha1.Operation
	// Domain is that of the pod, where the protector minds the loss of others; Unlocated is why it is not known.
	Domain    quota.Domain
	Unlocated error
}

// String is core/namespace/name.
func (c Charge) String() string { return c.Core + "/" + c.Key.String() }

// Ask is what is asked of the protector.
func (c Charge) Ask(attempt quota.Removal) quota.Removal {
	attempt.Domain = c.Domain
	attempt.Operation = cmp.Or(c.Operation, attempt.Operation)
	if attempt.Operation == v1alpha1.OperationRelabel {
		attempt.Generation, attempt.Containers = 0, nil // the pod is updated and leaves in one write
	} else {
		attempt.PodVersion = 0
	}
	return attempt
}

// Passes tells whether a removal needs no look at protectors. A pod that is going must go, or nodes never finish their work.
func (r Request) Passes() bool {
	return podhealth.FactsOf(r.Pod).Gone() || r.Pod.Spec.NodeName == ""
}

// Attempt is what is asked of protectors, at a time and with a token that no other attempt has.
func (r Request) Attempt(cell string, at time.Time, token string) quota.Removal {
	attempt := quota.Removal{
		Cell: cell, PodUID: r.Pod.UID, PodName: r.PodName, Operation: r.Operation,
		At: at, Token: token, Force: r.Forced(), Generation: r.Generation, Containers: r.Containers,
	}
	if r.relabels() {
		attempt.PodVersion = r.podVersion()
	}
	return attempt
}

// Charged leaves of the protectors that cover a pod, in their own slice, those that its removal costs budget, in the order in which they
// are asked. When there is none it says why not. belongs tells whether the pod belongs to the cell at all.
func Charged(covering []Charge, belongs bool, cell string, r Request, now time.Time) (charges []Charge, free VerdictReason) {
	facts, guarded, kept := podhealth.FactsOf(r.Pod), false, false
	for i := range covering {
		covering[i].Operation = covering[i].operationOf(r, cell, now)
	}
	charges = slices.DeleteFunc(covering, func(c Charge) bool {
		if floor, known := quota.Floor(c.Protector); c.Vanished && known && floor == 0 {
			return true // it would refuse nothing
		}
		if c.Operation == "" {
			kept = kept || c.Guards(r.Operation)
			return true
		}
		guarded = true
		return !c.costs(c.Health(facts, cell, c.AgedAt(cell, now)), r)
	})
	slices.SortFunc(charges, func(a, b Charge) int { return cmp.Compare(a.String(), b.String()) })
	switch {
	case !guarded && !belongs:
		return charges, VerdictOtherCell
	case !guarded && kept:
		return charges, VerdictUnguarded
	case !guarded:
		return charges, VerdictUnprotected
	default:
		return charges, VerdictNotAvailable
	}
}

// costs reports whether the removal of a pod of that health costs the protector budget.
func (c Charge) costs(health podhealth.Health, r Request) bool {
	return health.Charged(c.Protector.Spec.Criterion) || r.Criterion != "" && health.Meets(r.Criterion)
}

// AgedAt is the time at which the age of a pod is judged that is to be removed. In a cell that no aggregator has counted, or that was taken out
// of the protector, no count has a time that makes up for a clock that is behind: a pod is taken to be old enough, and its removal refused.
func (c Charge) AgedAt(cell string, now time.Time) time.Time {
	if quota.CellOf(c.Protector, cell) == nil {
		return now.Add(time.Duration(c.Protector.Spec.MinReadySeconds)*time.Second + longestBehind)
	}
	return now
}

// longestBehind is how far the clock of a webhook may be behind that of an aggregator.
const longestBehind = 24 * time.Hour

// IsYoung reports whether the removal of a pod costs nothing only because the pod has not been ready for long enough, by our clock. The
// aggregator may have counted it by a clock that is ahead of ours, in a count that we have not seen yet: only the newest one tells.
func (c Charge) IsYoung(r Request, cell string, now time.Time) bool {
	if floor, known := quota.Floor(c.Protector); known && floor == 0 || c.Vanished || c.operationOf(r, cell, now) == "" {
		return false
	}
	health := c.Health(podhealth.FactsOf(r.Pod), cell, now)
	if health.AvailableAt.IsZero() || c.costs(health, r) {
		return false
	}
	health.Available = true
	return c.costs(health, r)
}

// Guards reports whether an operation consumes budget of the protector. One that is older than the field guards the default operations.
func (c Charge) Guards(operation v1alpha1.Operation) bool {
	operations := c.Protector.Spec.Operations
	if len(operations) == 0 {
		operations = v1alpha1.DefaultOperations()
	}
	return slices.Contains(operations, operation)
}

// operationOf is the operation that a request is to the protector, if the pod is available; empty when it is none that the protector guards.
func (c Charge) operationOf(r Request, cell string, now time.Time) v1alpha1.Operation {
	switch {
	case r.relabels() && c.Guards(v1alpha1.OperationRelabel) && c.loses(r, cell, now):
		return v1alpha1.OperationRelabel
	case r.Operation != v1alpha1.OperationRelabel && c.Guards(r.Operation):
		return r.Operation
	default:
		return ""
	}
}

// Health is that of a pod of a cell, as the protector sees it.
func (c Charge) Health(facts podhealth.Facts, cell string, now time.Time) podhealth.Health {
	return facts.At(c.Protector.Spec.MinReadySeconds, noEarlierThan(c.Protector, cell, now))
}

// noEarlierThan is the time at which a pod's age is judged: now, but not before the aggregator counted. A pod
// that its clock took for available must not pass uncharged because ours is behind; see IsYoung for what we have not seen.
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
