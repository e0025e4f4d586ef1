package aggregator

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A removal of a pod that a protector did not count when the removal was admitted is in no reservation (rule 4). When the spec changes so
// that the pod counts, it must not be counted until that removal has taken effect or no longer can. Until the admission deadline has
// passed since the change was seen, only pods that also counted by the earlier specs are counted. So a narrower spec takes effect at
// once, and a wider one after the deadline. The same holds when the target of targetRef selects other pods, which its status may say without a
// change of any spec (rule 16).

// period is a time in which a process saw one spec of a protector, and one selector of its target.
type period struct {
	// specHash is the hash of the spec; empty for a spec that the process does not know.
	specHash string
	spec     countedSpec
	// target is the one that was counted; nil if there was none, or before the first count.
	target *v1alpha1.Target
	// ended is when the process first saw another spec or selector, on the monotonic clock; zero for the last seen one.
	ended time.Time
}

// periods are those of one protector, each spec once with each selector of its target.
type periods struct {
	uid types.UID
	all []period
}

// record records a stored state of the protector: its spec, and the counts of the cell, nil if there are none. A process that sees the
// protector for the first time does not know the previous spec if the counts are of another spec, or of a transition. isCached reports
// that p is the object of the cache. Its selectors then take no memory of their own.
func (s *periods) record(p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell, isCached bool, now time.Time) {
	counted := quota.CountedSpec(&p.Spec)
	isCounted := cell != nil && cell.Aggregation.CountedSpec == counted
	if s.uid != p.UID || len(s.all) == 0 {
		*s = periods{uid: p.UID}
		if cell != nil && cell.Discount != v1alpha1.DiscountCleared && (!isCounted || cell.Aggregation.InTransition) {
			s.all = append(s.all, period{ended: now})
		}
	}
	current := period{specHash: counted, spec: countedSpecOf(&p.Spec)}
	if isCounted {
		current.target = cell.Aggregation.Target
	}
	continued := s.find(counted, current.target)
	kept := s.all[:0]
	for i, other := range s.all {
		switch {
		case i == continued:
			current.target = cmp.Or(current.target, other.target)
			if !isCached {
				current.spec = other.spec
			}
			continue
		case other.ended.IsZero():
			other.ended = now
		case now.Sub(other.ended) > endedProtectorRetention+p.Spec.AdmissionHistory.UpdateTimeoutOrDefault():
			continue
		}
		kept = append(kept, other)
	}
	kept = append(kept, current)
	s.all = kept
}

// find returns the index of the period of a spec and a target, -1 if there is none. For an unknown target it is the last period of the spec.
func (s *periods) find(specHash string, target *v1alpha1.Target) int {
	found := -1
	for i := range s.all {
		other := &s.all[i]
		if other.specHash != specHash || selectsOther(target, other.target) {
			continue
		}
		if found < 0 || !s.all[found].ended.IsZero() && (other.ended.IsZero() || other.ended.After(s.all[found].ended)) {
			found = i
		}
	}
	return found
}

// selectsOther reports whether a target selects other pods than an earlier one. The pods of an unknown target are unknown.
func selectsOther(now, earlier *v1alpha1.Target) bool {
	return now != nil && earlier != nil && now.Selector != earlier.Selector
}

// countedSpec is the parts of a spec that the counts depend on. A process has one for each protector.
type countedSpec struct {
	selector, aggregation, exempt *v1alpha1.PodSelector
	targetRef                     *v1alpha1.TargetRef
	criterion                     v1alpha1.Criterion
	minReadySeconds               int32
}

func countedSpecOf(spec *v1alpha1.PodProtectorSpec) countedSpec {
	return countedSpec{
		selector: spec.Selector, aggregation: spec.AggregationSelector, exempt: spec.ExemptPodSelector,
		targetRef: spec.TargetRef, criterion: spec.Criterion, minReadySeconds: spec.MinReadySeconds,
	}
}

// whole returns a spec with these parts.
func (s *countedSpec) whole() *v1alpha1.PodProtectorSpec {
	return &v1alpha1.PodProtectorSpec{
		Selector: s.selector, TargetRef: s.targetRef, AggregationSelector: s.aggregation, ExemptPodSelector: s.exempt,
		MinReadySeconds: s.minReadySeconds, Criterion: s.criterion,
	}
}

// earlier returns the rules of the specs before the last seen one, as long as removals that were admitted by them may be under way.
// wait is how long that lasts for the last of them; 0 if there is none. The last seen one is an earlier one too if target, by which the
// protector is counted now, selects other pods: webhooks admit removals by it until they have seen the new counts.
func (s *periods) earlier(target *v1alpha1.Target, underWay time.Duration, now time.Time) (earlier []snapshot.Rule, wait time.Duration) {
	for i := range s.all {
		other := &s.all[i]
		left := other.ended.Add(underWay).Sub(now)
		if other.ended.IsZero() && selectsOther(target, other.target) {
			left = underWay
		} else if other.ended.IsZero() || left <= 0 {
			continue
		}
		wait = max(wait, left)
		if other.specHash == "" {
			earlier = append(earlier, snapshot.CountsNoPod())
			continue
		}
		earlier = append(earlier, snapshot.RuleOf(other.spec.whole(), other.target))
	}
	return earlier, wait
}

// transitions remembers the specs by which protectors were counted. All processes of a cell watch protectors, including those that do not
// lead, so only a process that starts after a change misses it. It is safe for concurrent use.
type transitions struct {
	mu          sync.Mutex
	byProtector map[types.NamespacedName]*periods
}

// record records a state of a protector, which the cache has.
func (t *transitions) record(p *v1alpha1.PodProtector, cell string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.periodsOf(p).record(p, quota.CellOf(p, cell), true, now)
}

// forget drops the state of a protector that was deleted, or that another shard counts.
func (t *transitions) forget(p *v1alpha1.PodProtector) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seen := t.byProtector[client.ObjectKeyFromObject(p)]; seen != nil && seen.uid == p.UID {
		delete(t.byProtector, client.ObjectKeyFromObject(p))
	}
}

// earlier records the newest state of a protector, and returns the result of periods.earlier.
func (t *transitions) earlier(
	p *v1alpha1.PodProtector, cell string, target *v1alpha1.Target, underWay time.Duration, now time.Time,
) (earlier []snapshot.Rule, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.periodsOf(p)
	seen.record(p, quota.CellOf(p, cell), false, now)
	return seen.earlier(target, underWay, now)
}

func (t *transitions) periodsOf(p *v1alpha1.PodProtector) *periods {
	if t.byProtector == nil {
		t.byProtector = map[types.NamespacedName]*periods{}
	}
	if t.byProtector[client.ObjectKeyFromObject(p)] == nil {
		t.byProtector[client.ObjectKeyFromObject(p)] = &periods{}
	}
	return t.byProtector[client.ObjectKeyFromObject(p)]
}
