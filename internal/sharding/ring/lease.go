package ring

import (
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// orphanedAfter is how long the Lease of a dead shard is kept.
const orphanedAfter = time.Minute

// CheckLease returns an error if a Lease is not a valid Lease of a shard.
func CheckLease(lease *coordinationv1.Lease) error {
	if problems := validation.IsDNS1123Label(lease.Name); len(problems) > 0 {
		return fmt.Errorf("its name is the name of the shard and must be a valid label value: %s", problems[0])
	}
	seconds := lease.Spec.LeaseDurationSeconds
	if seconds == nil || *seconds < 1 || *seconds > leaseholder.MaxLeaseSeconds {
		return fmt.Errorf("leaseDurationSeconds must be from 1 to %d", leaseholder.MaxLeaseSeconds)
	}
	if lease.Spec.RenewTime == nil {
		return errors.New("renewTime is not set")
	}
	return nil
}

// StateOf returns the state of a shard from its Lease, which CheckLease must have accepted, and the time for which the Lease has not
// changed. The caller measures that time on its own monotonic clock, so clocks of two machines are not compared. A shard stops when,
// by its own clock, it has not renewed its Lease for the lease duration. So it does not work from Expired on.
func StateOf(lease *coordinationv1.Lease, unchanged time.Duration) v1alpha1.ShardState {
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	switch {
	case leaseholder.Is(lease, lease.Name):
		switch {
		case unchanged <= duration:
			return v1alpha1.ShardReady
		case unchanged <= 2*duration:
			return v1alpha1.ShardExpired
		default:
			return v1alpha1.ShardUncertain
		}
	case leaseholder.Of(lease) == leaseholder.Revoked:
		return v1alpha1.ShardUncertain // it is dead only once the sharder has waited and recorded that
	case unchanged > orphanedAfter:
		return v1alpha1.ShardOrphaned
	default:
		return v1alpha1.ShardDead
	}
}

// Step is an action of the sharder on a Lease.
type Step int

// The steps. All of them are compare-and-swaps, which fail if the shard renews meanwhile.
const (
	// Wait does nothing now.
	Wait Step = iota
	// Tombstone clears the holder: the shard does not work, and its objects move to other shards.
	Tombstone
	// Delete deletes the Lease.
	Delete
)

// NextStep returns the step for a Lease that has not changed for the given time, and the time after which to check it again if it
// still does not change; 0 means never.
func NextStep(lease *coordinationv1.Lease, unchanged time.Duration) (Step, time.Duration) {
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	after := func(due time.Duration) time.Duration { return max(due-unchanged, 0) + time.Millisecond }
	switch StateOf(lease, unchanged) {
	case v1alpha1.ShardReady:
		return Wait, after(duration)
	case v1alpha1.ShardExpired:
		return Wait, after(2 * duration)
	case v1alpha1.ShardUncertain:
		if unchanged > 2*duration {
			return Tombstone, 0
		}
		return Wait, after(2 * duration)
	case v1alpha1.ShardOrphaned:
		return Delete, 0
	default:
		return Wait, after(orphanedAfter)
	}
}

// IsAvailable reports whether objects stay with a shard in a state.
func IsAvailable(state v1alpha1.ShardState) bool {
	return state == v1alpha1.ShardReady || state == v1alpha1.ShardExpired || state == v1alpha1.ShardUncertain
}
