package aggregator

import (
	"iter"
	"strconv"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// count is the result of counting for one protector from one snapshot, all of it at the same version.
type count struct {
	aggregation v1alpha1.Aggregation
	version     uint64
	// until is when the last event of the cell was received, if reservations end by time; otherwise zero.
	until time.Time
	// podStates are the states of the pods of the open reservations. ended is since when the snapshot has shown the Gone ones as
	// terminating or deleted.
	podStates map[quota.UIDHash]quota.Observation
	ended     map[quota.UIDHash]time.Time
	// owners are the controllers of the pods, including terminating pods, with the number of pods each has. It is set only for a
	// protector that needs it.
	owners map[owner]int32
	// nextAvailable is when the next pod becomes available by time alone; zero if none does.
	nextAvailable time.Time
	// unseen is the number of pods that do not count only because they became available by time and have not been seen alive since.
	unseen int
	// lastAvailable is when the last of the counted pods became available by time; zero if none did.
	lastAvailable time.Time
}

// Count counts the pods of a protector and looks up the pods of its reservations, both at one state of the snapshot. Until the snapshot
// has reached the version of first, only pods that are alive in first count; nil means there is no such list. Pods that do not count by
// all of the earlier standards do not count towards the floor. ok is false if there is no snapshot yet, or the snapshot does not cover
// the protector or lacks pods of its namespace.
func (s *Snapshot) Count(
	key types.NamespacedName, spec *v1alpha1.PodProtectorSpec, reservations iter.Seq[quota.Reservation], initial *liveRead, earlier []countingRule,
) (count, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := s.covered[key]
	if s.version == 0 || members == nil || !s.coversNamespace(key.Namespace) {
		return count{}, false
	}
	at := instant{wall: s.now()}
	at.sinceCreation = s.sinceCreation() // the later it is read, the fewer pods count
	c := count{version: s.version, until: s.eventClock.settledUntil(), podStates: map[quota.UIDHash]quota.Observation{}, ended: map[quota.UIDHash]time.Time{}}
	var handles map[unique.Handle[owner]]int32
	if quota.NeedsExpected(spec) {
		handles = map[unique.Handle[owner]]int32{}
	}
	behind := initial != nil && s.version < initial.version
	if behind {
		s.liveListVersion = max(s.liveListVersion, initial.version)
	}
	label, onNodes := nodeLabelOf(spec), map[unique.Handle[string]]int32{}
	for p := range members.pods {
		if p.entered || behind && !initial.has(p.hash) {
			continue
		}
		ends := behind && !initial.isAlive(p.hash)
		if handles != nil && p.hasExpectedOwner() && (!ends || p.owner.Value() != noOwner()) {
			handles[p.owner]++
		}
		if ends {
			continue
		}
		health := c.health(p, spec.MinReadySeconds, spec.Criterion, at)
		counted := health.Counted(spec.Criterion) && s.countedEarlier(p, earlier, at, &c)
		c.add(health, counted, p.facts.ForceDeletable())
		if label != "" && counted {
			onNodes[p.node]++
		}
	}
	if label != "" {
		c.aggregation.Spread = s.nodes.distribution(label, onNodes)
	}
	if handles != nil {
		c.owners = make(map[owner]int32, len(handles))
	}
	for handle, pods := range handles {
		c.owners[handle.Value()] = pods
	}
	c.aggregation.SnapshotVersion = strconv.FormatUint(s.version, 10)
	if s.liveListVersion > s.version {
		c.aggregation.SettledVersion = strconv.FormatUint(s.liveListVersion, 10)
	}
	c.aggregation.LastEventTime = metav1.NewMicroTime(at.wall.Truncate(time.Microsecond))
	for r := range reservations {
		c.podStates[r.Hash] = s.stateOf(r, members, spec, at)
		if end := s.endTimeOf(r.Hash); !end.IsZero() && c.podStates[r.Hash] == quota.Absent {
			c.ended[r.Hash] = end
		}
	}
	return c, true
}

// markUnseen marks pods as unseen whose reservation came long after their end (rule 4(a)), because no webhook reserves the removal of a pod
// that does not exist. The end and the reservation then belong to different histories, and the snapshot has not yet shown that its cell
// was restored. firstSeen returns when a reservation was first observed.
func (c *count) markUnseen(reservations iter.Seq[quota.Reservation], firstSeen func(quota.Reservation) (time.Time, bool)) {
	for r := range reservations {
		end, known := c.ended[r.Hash]
		if seen, observed := firstSeen(r); known && observed && seen.After(end.Add(continueWithin)) {
			c.podStates[r.Hash] = quota.Unobserved
		}
	}
}

// hasExpectedOwner reports whether the owner of a pod is one whose pods are expected. A terminating pod says nothing about its workload. A
// finished pod may belong to a Job, which expects none.
func (p *pod) hasExpectedOwner() bool {
	return !p.facts.IsTerminatingOrFinished() || p.facts.Terminating() && !p.facts.Finished() && p.owner.Value() != noOwner()
}

// countedEarlier reports whether a pod counts by all earlier standards.
func (s *Snapshot) countedEarlier(p *pod, earlier []countingRule, at instant, c *count) bool {
	for i := range earlier {
		if !earlier[i].covers(p.labels.toMap(s.labelBuffer)) {
			return false
		}
		health := c.health(p, earlier[i].minReady, earlier[i].criterion, at)
		c.updateNextAvailable(health)
		if !health.Counted(earlier[i].criterion) {
			return false
		}
	}
	return true
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

func (s *Snapshot) stateOf(r quota.Reservation, members *coveredPods, spec *v1alpha1.PodProtectorSpec, at instant) quota.Observation {
	p := s.pods[r.Hash]
	_, removed := s.removedPods[r.Hash]
	_, reappeared := s.reappeared[r.Hash]
	switch {
	case p == nil && reappeared:
		return quota.Alive // the cell may have been restored, and the reserved removal may still take effect
	case p == nil && removed:
		return quota.Absent
	case p == nil:
		return quota.Unobserved
	case p.facts.Terminating():
		return quota.Absent
	case r.Relabel > 0 && p.version > r.Relabel:
		return relabeled(r, members.has(p))
	case r.Update.IsEmpty():
		return quota.Alive
	case p.facts.IsTerminatingOrFinished():
		return quota.Absent // a finished pod does not become available again
	case !p.health(spec.MinReadySeconds, at).Counted(spec.Criterion):
		return quota.Unavailable
	case p.facts.ObservedGeneration() >= r.Update.Generation:
		return quota.Updated // if its containers were restarted, which the snapshot does not show
	default:
		return quota.Alive
	}
}
