package snapshot

import (
	"iter"
	"slices"
	"strconv"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// Count counts the pods of a protector and looks up the pods of its reservations, both at one state of the snapshot (rule 4(a)). Until the
// snapshot has reached the version of initial, only pods that are alive in initial, and unchanged, count (rule 5); nil means there is no such
// list. Pods that do not count by all of the earlier rules do not count towards the floor. ok is false if there is no snapshot yet, or the snapshot does
// not cover the protector or lacks pods of its namespace (rule 9).
func (s *Snapshot) Count(
	key types.NamespacedName, spec *v1alpha1.PodProtectorSpec, reservations iter.Seq[quota.Reservation], initial *LiveRead, earlier []Rule,
) (Count, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := s.protectors.covered[key]
	if s.versions.stream == 0 || members == nil || !s.filter.slots.coversNamespace(key.Namespace) {
		return Count{}, false
	}
	at := instant{wall: s.now()}
	at.sinceCreation = s.SinceCreation() // the later it is read, the fewer pods count
	c := newCounting(spec, earlier, at, s.protectors.labelBuffer)
	c.result.Version, c.result.Cutoff = s.versions.stream, s.EventSettlement.Cutoff()
	if behind := initial != nil && s.versions.stream < initial.Version; behind {
		s.versions.recordLiveList(initial.Version)
		c.initial = initial
	}
	for p := range members.pods {
		c.addPod(p)
	}
	if label := nodeLabelOf(spec); label != "" {
		c.result.Aggregation.Spread = s.nodes.distribution(label, c.onNodes) // rule 12
	}
	c.setOwners()
	c.result.Aggregation.SnapshotVersion = strconv.FormatUint(s.versions.stream, 10)
	if unreached := s.versions.unreached(); unreached > 0 { // rule 5
		c.result.Aggregation.SettledVersion = strconv.FormatUint(unreached, 10)
	}
	c.result.Aggregation.LastEventTime = metav1.NewMicroTime(at.wall.Truncate(time.Microsecond))
	for r := range reservations {
		p := s.pods.byHash[r.Hash]
		c.result.PodStates[r.Hash] = c.stateOf(r, p, members.has(p), s.removed)
		switch c.result.PodStates[r.Hash] {
		case quota.Absent:
			if end := s.removed.endTimeOf(r.Hash, p != nil); !end.IsZero() {
				c.result.Ended[r.Hash] = end
			}
		case quota.Relabeled, quota.RemovalExpired:
			c.result.Ended[r.Hash] = s.createdAt.Add(p.versionSeen)
		default:
		}
	}
	return c.result, true
}

// maxLabelSets bounds how many distinct labels of the pods of one owner are compared with the selector of a scale. The pods of one owner
// differ in labels that selectors of scales do not name, as their own names.
const maxLabelSets = 64

// counting counts the pods of one protector one by one, all of them by one spec and at one instant.
type counting struct {
	spec    *v1alpha1.PodProtectorSpec
	earlier []Rule
	at      instant
	// initial is the live list in which a pod must be alive, and as it is in the snapshot, to count; nil if there is no such list.
	initial *LiveRead
	// handles are the owners of the pods; nil if they are not needed. onNodes is the number of counted pods by node; nil if it is not needed.
	handles map[unique.Handle[Owner]]int32
	// labelSets are the distinct labels of the pods of each owner, at most maxLabelSets.
	labelSets   map[unique.Handle[Owner]][]*LabelSet
	onNodes     map[unique.Handle[string]]int32
	labelBuffer map[string]string
	result      Count
}

func newCounting(spec *v1alpha1.PodProtectorSpec, earlier []Rule, at instant, labelBuffer map[string]string) *counting {
	c := &counting{spec: spec, earlier: earlier, at: at, labelBuffer: labelBuffer}
	c.result.PodStates, c.result.Ended = map[quota.UIDHash]quota.Observation{}, map[quota.UIDHash]time.Time{}
	if quota.NeedsExpected(spec) {
		c.handles, c.labelSets = map[unique.Handle[Owner]]int32{}, map[unique.Handle[Owner]][]*LabelSet{}
	}
	if nodeLabelOf(spec) != "" {
		c.onNodes = map[unique.Handle[string]]int32{}
	}
	return c
}

// addPod adds a pod that the protector covers.
func (c *counting) addPod(p *pod) {
	if p.entered || c.initial != nil && !c.initial.has(p.hash) {
		return
	}
	ends := c.initial != nil && !c.initial.isAlive(p.hash)
	if c.handles != nil && p.hasExpectedOwner() && (!ends || p.owner.Value() != NoOwner()) {
		c.handles[p.owner]++
		if sets := c.labelSets[p.owner]; len(sets) < maxLabelSets && !slices.Contains(sets, p.labels) {
			c.labelSets[p.owner] = append(sets, p.labels)
		}
	}
	if ends || c.initial != nil && (!c.initial.Pods[p.hash].IsIn(c.result.Version) || c.initial.Pods[p.hash].Version < p.version) {
		return // it has changed since the snapshot, or a restore of the cell has undone what that shows
	}
	health := c.result.health(p, c.spec.MinReadySeconds, c.spec.Criterion, c.at)
	counted := health.Counted(c.spec.Criterion) && c.countedEarlier(p)
	c.result.add(health, counted, p.facts.ForceDeletable())
	if c.onNodes != nil && counted {
		c.onNodes[p.node]++
	}
}

// hasExpectedOwner reports whether the owner of a pod is one whose pods are expected (rule 13). A terminating pod says nothing about its workload. A
// finished pod may belong to a Job, which expects none.
func (p *pod) hasExpectedOwner() bool {
	return !p.facts.IsTerminatingOrFinished() || p.facts.Terminating() && !p.facts.Finished() && p.owner.Value() != NoOwner()
}

// countedEarlier reports whether a pod counts by all earlier rules.
func (c *counting) countedEarlier(p *pod) bool {
	for i := range c.earlier {
		rule := &c.earlier[i]
		if !rule.Covers(p.labels.ToMap(c.labelBuffer)) {
			return false
		}
		health := c.result.health(p, rule.MinReady, rule.Criterion, c.at)
		c.result.updateNextAvailable(health)
		if !health.Counted(rule.Criterion) {
			return false
		}
	}
	return true
}

// setOwners sets the owners of the pods that were added.
func (c *counting) setOwners() {
	if c.handles == nil {
		return
	}
	c.result.Owners = make(map[Owner]int32, len(c.handles))
	c.result.OwnerLabels = make(map[Owner][]*LabelSet, len(c.handles))
	for handle, pods := range c.handles {
		c.result.Owners[handle.Value()] = pods
		c.result.OwnerLabels[handle.Value()] = c.labelSets[handle]
	}
}

// stateOf returns the state of a reservation's pod, which decides whether the reservation settles (rule 4(a)). The pod is nil if the snapshot
// does not have it.
func (c *counting) stateOf(r quota.Reservation, p *pod, covered bool, removedPods *removedPods) quota.Observation {
	_, removed := removedPods.removed[r.Hash]
	_, reappeared := removedPods.reappeared[r.Hash]
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
		return relabeled(r, covered) // rule 14
	case r.Update.IsEmpty():
		return quota.Alive
	case p.facts.IsTerminatingOrFinished():
		return quota.Absent // a finished pod does not become available again
	case !p.health(c.spec.MinReadySeconds, c.at).Counted(c.spec.Criterion):
		return quota.Unavailable
	case p.facts.ObservedGeneration() >= r.Update.Generation:
		return quota.Updated // if its containers were restarted, which the snapshot does not show
	default:
		return quota.Alive
	}
}

// Rule determines which pods count by one spec.
type Rule struct {
	Coverage  selectors.Coverage
	MinReady  int32
	Criterion v1alpha1.Criterion
}

// RuleOf returns the rule of a spec. A spec that cannot be compiled, or whose target is unknown, counts no pod: as the earlier
// spec of a transition it must err on the side of counting too few pods.
func RuleOf(spec *v1alpha1.PodProtectorSpec, target *v1alpha1.Target) Rule {
	coverage, err := selectors.CountedCoverageOf(spec, target)
	if err != nil {
		return CountsNoPod()
	}
	return Rule{Coverage: coverage, MinReady: spec.MinReadySeconds, Criterion: spec.Criterion}
}

// CountsNoPod returns the rule of an unknown spec.
func CountsNoPod() Rule {
	return Rule{Coverage: selectors.Coverage{Selector: selectors.Nothing()}}
}

// Covers reports whether a pod with these labels can count.
func (r *Rule) Covers(labels map[string]string) bool { return r.Coverage.Covers(labels) }

// relabeled returns the state of a reservation once the relabel for which it was made can no longer take effect. A pod that stays covered
// may still be under update.
func relabeled(r quota.Reservation, covered bool) quota.Observation {
	if covered && !r.Update.IsEmpty() {
		return quota.RemovalExpired
	}
	return quota.Relabeled
}

// Count is the result of counting for one protector from one snapshot, all of it at the same version.
type Count struct {
	Aggregation v1alpha1.Aggregation
	Version     uint64
	// Cutoff is as of this version.
	Cutoff modes.Cutoff
	// PodStates are the states of the pods of the open reservations. Ended is since when the snapshot has shown the Absent ones as
	// terminating or deleted, and those of ended relabels at their version, on the monotonic clock.
	PodStates map[quota.UIDHash]quota.Observation
	Ended     map[quota.UIDHash]time.Time
	// Owners are the controllers of the pods, including terminating pods, with the number of pods each has. It is set only for a
	// protector that needs it.
	Owners map[Owner]int32
	// OwnerLabels are the distinct labels of the pods of each owner, at most maxLabelSets.
	OwnerLabels map[Owner][]*LabelSet
	// NextAvailable is when the next pod becomes available by time alone; zero if none does.
	NextAvailable time.Time
	// Unseen is the number of pods that do not count only because they became available by time and have not been seen alive since.
	Unseen int
	// LastAvailable is when the last of the counted pods became available by time; zero if none did.
	LastAvailable time.Time
}

// MarkUnseen marks pods as unseen whose reservation came long after their end (rule 4(a)), because no webhook reserves the removal of a pod
// that does not exist, or the relabel of a version that has been replaced. The end and the reservation then belong to different histories,
// and the snapshot has not yet shown that its cell was restored. firstSeen returns when a reservation was first observed.
func (c *Count) MarkUnseen(reservations iter.Seq[quota.Reservation], firstSeen func(quota.Reservation) (time.Time, bool)) {
	for r := range reservations {
		end, known := c.Ended[r.Hash]
		if seen, observed := firstSeen(r); known && observed && seen.After(end.Add(stream.ContinueWithin)) {
			if c.PodStates[r.Hash] == quota.Absent {
				c.PodStates[r.Hash] = quota.Unobserved
			} else {
				c.PodStates[r.Hash] = quota.Alive // until the admission deadline has passed
			}
		}
	}
}

// add adds a pod. counted reports whether it counts towards the floor, and forceDeletable whether it may be removed regardless of the
// floor.
func (c *Count) add(h podhealth.Health, counted, forceDeletable bool) {
	a := &c.Aggregation
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
	if h.AvailableSince.After(c.LastAvailable) && counted {
		c.LastAvailable = h.AvailableSince
	}
	c.updateNextAvailable(h)
}

// updateNextAvailable records when a pod becomes available by time alone.
func (c *Count) updateNextAvailable(h podhealth.Health) {
	if !h.AvailableAt.IsZero() && (c.NextAvailable.IsZero() || h.AvailableAt.Before(c.NextAvailable)) {
		c.NextAvailable = h.AvailableAt
	}
}
