package aggregator

import (
	"iter"
	"time"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// count is the result of counting for one protector from one snapshot, all of it at the same version.
type count struct {
	aggregation v1alpha1.Aggregation
	version     uint64
	// cutoff is as of this version.
	cutoff modes.Cutoff
	// podStates are the states of the pods of the open reservations. ended is since when the snapshot has shown the Absent ones as
	// terminating or deleted, and those of ended relabels at their version, on the monotonic clock.
	podStates map[quota.UIDHash]quota.Observation
	ended     map[quota.UIDHash]time.Time
	// owners are the controllers of the pods, including terminating pods, with the number of pods each has. It is set only for a
	// protector that needs it.
	owners map[owner]int32
	// ownerLabels are the distinct labels of the pods of each owner, at most maxLabelSets.
	ownerLabels map[owner][]*labelSet
	// nextAvailable is when the next pod becomes available by time alone; zero if none does.
	nextAvailable time.Time
	// unseen is the number of pods that do not count only because they became available by time and have not been seen alive since.
	unseen int
	// lastAvailable is when the last of the counted pods became available by time; zero if none did.
	lastAvailable time.Time
}

// markUnseen marks pods as unseen whose reservation came long after their end (rule 4(a)), because no webhook reserves the removal of a pod
// that does not exist, or the relabel of a version that has been replaced. The end and the reservation then belong to different histories,
// and the snapshot has not yet shown that its cell was restored. firstSeen returns when a reservation was first observed.
func (c *count) markUnseen(reservations iter.Seq[quota.Reservation], firstSeen func(quota.Reservation) (time.Time, bool)) {
	for r := range reservations {
		end, known := c.ended[r.Hash]
		if seen, observed := firstSeen(r); known && observed && seen.After(end.Add(stream.ContinueWithin)) {
			if c.podStates[r.Hash] == quota.Absent {
				c.podStates[r.Hash] = quota.Unobserved
			} else {
				c.podStates[r.Hash] = quota.Alive // until the admission deadline has passed
			}
		}
	}
}

// add adds a pod. counted reports whether it counts towards the floor, and forceDeletable whether it may be removed regardless of the
// floor.
func (c *count) add(h podhealth.Health, counted, forceDeletable bool) {
	a := &c.aggregation
	a.TotalReplicas++
	if forceDeletable {
		a.ForceDeletableReplicas++
	}
	for _, state := range []struct {
		holds bool
		total *int32
	}{
		{h.Scheduled, &a.ScheduledReplicas}, {h.Running, &a.RunningReplicas},
		{h.Ready, &a.ReadyReplicas}, {h.Available, &a.AvailableReplicas}, {counted, &a.CountedReplicas},
	} {
		if state.holds {
			*state.total++
		}
	}
	if h.AvailableSince.After(c.lastAvailable) && counted {
		c.lastAvailable = h.AvailableSince
	}
	c.updateNextAvailable(h)
}

// updateNextAvailable records when a pod becomes available by time alone.
func (c *count) updateNextAvailable(h podhealth.Health) {
	if !h.AvailableAt.IsZero() && (c.nextAvailable.IsZero() || h.AvailableAt.Before(c.nextAvailable)) {
		c.nextAvailable = h.AvailableAt
	}
}
