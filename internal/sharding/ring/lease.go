package ring

import (
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Revoked is the holder of a Lease that the sharder has taken from a shard which may still work.
const Revoked = "breakwater-sharder"

// MaxLeaseSeconds is the longest lease duration that a shard may ask for, as of a ClusterRing.
const MaxLeaseSeconds = 3600

// orphanedAfter is how long a shard stays known after its death.
const orphanedAfter = time.Minute

// HolderOf is whom a Lease names; empty is nobody.
func HolderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Returning is the holder of the Lease of a shard that has stopped and is to come back. That of an incarnation of it begins so, and goes
// on with what tells it from the others.
func Returning(shard string) string { return shard + "_" }

// IsHeldBy tells whether the holder of a Lease is a shard: an incarnation of it, or one that is to come back.
func IsHeldBy(lease *coordinationv1.Lease, shard string) bool {
	return strings.HasPrefix(HolderOf(lease), Returning(shard))
}

// CheckLease tells why a Lease is not one of a shard.
func CheckLease(lease *coordinationv1.Lease) error {
	if problems := validation.IsDNS1123Label(lease.Name); len(problems) > 0 {
		return fmt.Errorf("its name is the shard's, and the value of a label: %s", problems[0])
	}
	seconds := lease.Spec.LeaseDurationSeconds
	if seconds == nil || *seconds < 1 || *seconds > MaxLeaseSeconds {
		return fmt.Errorf("leaseDurationSeconds must be from 1 to %d", MaxLeaseSeconds)
	}
	if lease.Spec.RenewTime == nil {
		return errors.New("it was never renewed")
	}
	return nil
}

// StateOf is what a Lease, which CheckLease has found to be a shard's, tells of it when it has not changed for a while. That is timed
// by whoever asks, on a clock that nobody can set: clocks of two machines are not compared. A shard stops when it has not renewed its
// Lease for as long as that lasts, by its own clock, so that it does not work from Expired on.
func StateOf(lease *coordinationv1.Lease, unchanged time.Duration) v1alpha1.ShardState {
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	switch {
	case IsHeldBy(lease, lease.Name):
		switch {
		case unchanged <= duration:
			return v1alpha1.ShardReady
		case unchanged <= 2*duration:
			return v1alpha1.ShardExpired
		default:
			return v1alpha1.ShardUncertain
		}
	case HolderOf(lease) == Revoked:
		return v1alpha1.ShardUncertain // it is dead when the sharder has waited and written so
	case unchanged > orphanedAfter:
		return v1alpha1.ShardOrphaned
	default:
		return v1alpha1.ShardDead
	}
}

// Step is what the sharder has to do with a Lease.
type Step int

// The steps. All of them are compare-and-swaps, which fail when the shard renews meanwhile.
const (
	// Wait does nothing now.
	Wait Step = iota
	// Bury empties the holder: the shard does not work, and its objects go to others.
	Bury
	// Forget deletes the Lease.
	Forget
)

// NextStep is what has to be done with a Lease that has not changed for a while, and after which time to look again if it does not
// change; 0 is never.
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
			return Bury, 0
		}
		return Wait, after(2 * duration)
	case v1alpha1.ShardOrphaned:
		return Forget, 0
	default:
		return Wait, after(orphanedAfter)
	}
}

// IsAvailable tells whether objects stay with a shard of a state.
func IsAvailable(state v1alpha1.ShardState) bool {
	return state == v1alpha1.ShardReady || state == v1alpha1.ShardExpired || state == v1alpha1.ShardUncertain
}
