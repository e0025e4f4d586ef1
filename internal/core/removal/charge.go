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
	// Core is the name of the core cluster of the protector.
	Core      string
	Key       types.NamespacedName
	Protector *v1alpha1.PodProtector
	// Vanished reports that the protector no longer exists although it was not released.
	Vanished bool
	// LeavesCell reports that a relabel removes the pod from the cell as defined in the protector's core.
	LeavesCell bool
	// AgeUnknown reports that the newest count could not be read, so that it is unknown whether it includes a pod that seems too young.
	AgeUnknown bool
	// Operation is the operation that the request is for the protector, Health the health of the pod by the protector's minReadySeconds, and IsYoung
	// reports that only the newest count shows if the pod is available. Assess sets them. Operation is empty if the protector does not guard
	// the request. A request that both updates and relabels a pod is one of the two for each protector.
	Operation v1alpha1.Operation
	Health    podhealth.Health
	IsYoung   bool
	// Domain is the domain of the pod, if the protector enforces spec.spread.tolerateDomainLoss. DomainErr is the error if it is
	// unknown.
	Domain    quota.Domain
	DomainErr error
}

// String returns core/namespace/name.
func (c Charge) String() string { return c.Core + "/" + c.Key.String() }

// AttemptFor adapts an attempt to the protector.
func (c Charge) AttemptFor(attempt quota.Removal) quota.Removal {
	attempt.Domain = c.Domain
	attempt.Operation = cmp.Or(c.Operation, attempt.Operation)
	if attempt.Operation == v1alpha1.OperationRelabel {
		attempt.Generation, attempt.Containers = 0, nil // the pod is updated and leaves in one write
	} else {
		attempt.PodVersion = 0
	}
	return attempt
}

// IsAlwaysAllowed reports whether a removal is allowed without a check of protectors. A pod that is terminating or finished must be deletable,
// or nodes never finish their work.
func (r Request) IsAlwaysAllowed() bool {
	return r.Pod.Facts.IsTerminatingOrFinished() || !r.Pod.Facts.Scheduled()
}

// IsImmediate reports whether the request removes the pod without a grace period, by the rules of the API server: the period of the
// request takes precedence over that of the pod, and without either there is none.
func (r Request) IsImmediate() bool {
	if r.Operation != v1alpha1.OperationDelete && r.Operation != v1alpha1.OperationEvict {
		return false
	}
	period := r.Pod.Spec.TerminationGracePeriodSeconds
	if r.gracePeriodSeconds != nil {
		period = r.gracePeriodSeconds
	}
	return period == nil || *period == 0
}

// Attempt returns the removal to ask protectors for, at a time and with a token that no other attempt has.
func (r Request) Attempt(cell string, at time.Time, token string) quota.Removal {
	attempt := quota.Removal{
		Cell: cell, PodUID: r.Pod.UID, PodName: r.PodName, Operation: r.Operation,
		At: at, Token: token, Force: r.IsBreakGlass(), Generation: r.Generation, Containers: r.Containers,
	}
	if r.changesCoverage() {
		attempt.PodVersion = r.reviewedVersion()
	}
	return attempt
}

// Assess determines what a request is for a protector that covers the pod: the operation, the health of the pod, and whether the pod seems too
// young.
func (c *Charge) Assess(r Request, cell string, now time.Time) {
	c.Operation = c.operationOf(r, cell, now)
	c.Health = c.HealthAt(r.Pod.Facts, cell, c.ageEvaluationTime(cell, now))
	c.IsYoung = c.seemsYoung(r, c.HealthAt(r.Pod.Facts, cell, now))
}

// AssessAll assesses a request for all protectors that cover the pod.
func AssessAll(covering []Charge, cell string, r Request, now time.Time) {
	for i := range covering {
		covering[i].Assess(r, cell, now)
	}
}

// ChargesFor reduces covering, the assessed protectors that cover a pod, in place to those that a removal of the pod consumes budget of, in the
// order in which they are asked. If none is left, free is the reason. inCell reports whether the pod belongs to the cell at all.
func ChargesFor(covering []Charge, inCell bool, r Request) (charges []Charge, free VerdictReason) {
	guarded, kept := false, false
	charges = slices.DeleteFunc(covering, func(c Charge) bool {
		if floor, known := quota.Floor(c.Protector); c.Vanished && known && floor == 0 {
			return true // it would deny nothing
		}
		if c.Operation == "" {
			kept = kept || c.Guards(r.Operation)
			return true
		}
		guarded = true
		return !c.consumesBudget(c.Health, r)
	})
	slices.SortFunc(charges, func(a, b Charge) int { return cmp.Compare(a.String(), b.String()) })
	switch {
	case !guarded && !inCell:
		return charges, VerdictOtherCell
	case !guarded && kept:
		return charges, VerdictUnguarded
	case !guarded:
		return charges, VerdictUnprotected
	default:
		return charges, VerdictNotAvailable
	}
}

// consumesBudget reports whether the removal of a pod with that health consumes budget of the protector.
func (c Charge) consumesBudget(health podhealth.Health, r Request) bool {
	return health.Charged(c.Protector.Spec.Criterion) || r.Criterion != "" && health.Meets(r.Criterion)
}

// ageEvaluationTime returns the time at which the age of a pod to be removed is evaluated. If no aggregator has counted the cell, or the cell
// was removed from the protector, or the protector has vanished, no newer count can compensate for a slow clock. The pod is then assumed to
// be old enough, and its removal is denied, or charged if it is forced.
func (c Charge) ageEvaluationTime(cell string, now time.Time) time.Time {
	if c.AgeUnknown || c.Vanished || quota.CellOf(c.Protector, cell) == nil {
		return now.Add(time.Duration(c.Protector.Spec.MinReadySeconds)*time.Second + maxClockLag)
	}
	return now
}

// maxClockLag is the maximum time by which the clock of a webhook may be behind that of an aggregator.
const maxClockLag = 24 * time.Hour

// seemsYoung reports whether the removal of a pod with that health consumes no budget only because, by the webhook's clock, the pod has not been
// ready for long enough. The aggregator may have counted it by a clock that is ahead, in a count that the webhook has not seen yet. Only
// the newest count is conclusive.
func (c Charge) seemsYoung(r Request, health podhealth.Health) bool {
	floor, known := quota.Floor(c.Protector)
	isWithoutFloor := known && floor == 0 && c.Protector.Spec.ShareOf == nil // other cells rely on the counts of a share of 0 as soon as it rises
	if isWithoutFloor || c.Vanished || c.Operation == "" || health.AvailableAt.IsZero() || c.consumesBudget(health, r) {
		return false
	}
	health.Available = true
	return c.consumesBudget(health, r)
}

// Guards reports whether an operation consumes budget of the protector. A protector without spec.operations guards the default
// operations.
func (c Charge) Guards(operation v1alpha1.Operation) bool {
	operations := c.Protector.Spec.Operations
	if len(operations) == 0 {
		operations = v1alpha1.DefaultOperations()
	}
	return slices.Contains(operations, operation)
}

// operationOf returns the operation that a request is for the protector, if the pod is available. It is empty if the protector does
// not guard it.
func (c Charge) operationOf(r Request, cell string, now time.Time) v1alpha1.Operation {
	switch {
	case r.changesCoverage() && c.Guards(v1alpha1.OperationRelabel) && c.losesPod(r, cell, now):
		return v1alpha1.OperationRelabel
	case r.Operation != v1alpha1.OperationRelabel && c.Guards(r.Operation):
		return r.Operation
	default:
		return ""
	}
}

// HealthAt returns the health of a pod of a cell by the protector's minReadySeconds.
func (c Charge) HealthAt(facts podhealth.Facts, cell string, now time.Time) podhealth.Health {
	return facts.At(c.Protector.Spec.MinReadySeconds, notBeforeCount(c.Protector, cell, now))
}

// notBeforeCount returns the time at which a pod's age is evaluated: now, but not before the aggregator's count. A pod that is
// available by the aggregator's clock must not be removed without a charge because the webhook's clock is behind. See seemsYoung for
// counts that the webhook has not seen.
func notBeforeCount(protector *v1alpha1.PodProtector, cellID string, now time.Time) time.Time {
	if cell := quota.CellOf(protector, cellID); cell != nil && cell.Aggregation.LastEventTime.After(now) {
		return cell.Aggregation.LastEventTime.Time
	}
	return now
}

// notAfterCount returns the time at which the age of a relabeled pod is evaluated: now, but not after the aggregator's count. A pod that does not count
// yet by the aggregator's clock must not be relabeled without a charge because the webhook's clock is ahead.
func notAfterCount(protector *v1alpha1.PodProtector, cellID string, now time.Time) time.Time {
	if cell := quota.CellOf(protector, cellID); cell != nil && cell.Aggregation.LastEventTime.Time.Before(now) {
		return cell.Aggregation.LastEventTime.Time
	}
	return now
}

// DomainLossTopologyKey returns the node label of the domains whose loss a protector must tolerate. It is empty if there is none.
func DomainLossTopologyKey(p *v1alpha1.PodProtector) string {
	spread := p.Spec.Spread
	if spread == nil || !spread.TolerateDomainLoss || spread.TopologyKey == v1alpha1.TopologyKeyCell {
		return ""
	}
	if floor, known := quota.Floor(p); known && floor == 0 {
		return ""
	}
	return spread.TopologyKey
}

// NodeLabel returns the value of a label of a pod's node, which is the pod's domain. unread is the error of reading the node.
func NodeLabel(node string, labels map[string]string, readErr error, key string) (string, error) {
	if readErr != nil {
		return "", fmt.Errorf("node %q cannot be read: %w", node, readErr)
	}
	value, ok := labels[key]
	if !ok {
		return "", fmt.Errorf("node %q has no label %s", node, key)
	}
	return value, nil
}
