package aggregator

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// endedProtectors remembers the protectors that ended while removals were reserved with them. A protector of the same name may follow at once,
// for example when a GitOps controller replaces it. Removals that the old one admitted and that have not taken effect are in no
// reservation of the new one, so its pods must not be counted before they have (rule 4). All processes of a cell watch protectors,
// including those that do not lead, so only a process that starts between the two misses the ending. It is safe for concurrent use.
type endedProtectors struct {
	mu sync.Mutex
	// counted are the last counted protectors, by name.
	counted map[types.NamespacedName]types.UID
	ended   map[types.NamespacedName]endedProtector
	// endedAt is when each protector ended. A count of it that began before may finish later, and no event follows that.
	endedAt map[types.UID]time.Time
}

// endedProtector is the end of one protector.
type endedProtector struct {
	uid types.UID
	// at is when it ended, on the monotonic clock. It is zero if nothing was reserved, so that nothing has to be awaited.
	at time.Time
	// updates is how much longer than other removals its updates may take.
	updates time.Duration
}

// endedProtectorRetention is how long an ending is remembered: longer than any admitted removal takes, apart from updates.
const endedProtectorRetention = time.Hour

// recordEnd records that a protector ended. unknown reports whether it may have changed since the state last.
func (e *endedProtectors) recordEnd(last *v1alpha1.PodProtector, cell string, unknown bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := client.ObjectKeyFromObject(last)
	if e.ended == nil {
		e.ended, e.endedAt = map[types.NamespacedName]endedProtector{}, map[types.UID]time.Time{}
	}
	maps.DeleteFunc(e.endedAt, func(_ types.UID, at time.Time) bool { return now.Sub(at) > endedProtectorRetention })
	e.endedAt[last.UID] = now
	for other, ended := range e.ended {
		if now.Sub(ended.at) > endedProtectorRetention+ended.updates {
			delete(e.ended, other)
		}
	}
	delete(e.counted, key)
	ended := endedProtector{uid: last.UID}
	if entry := quota.CellOf(last, cell); entry != nil && (unknown || entry.Share != nil || !quota.IsEmpty(&entry.AdmissionHistory)) {
		ended.at = now
	}
	if slices.ContainsFunc(last.Spec.Operations, isUpdate) {
		ended.updates = last.Spec.AdmissionHistory.UpdateTimeoutOrDefault()
	}
	if before := e.ended[key]; !ended.at.IsZero() || before.at.IsZero() {
		e.ended[key] = ended
	}
}

// recordCounted records which protector of a name is counted.
func (e *endedProtectors) recordCounted(p *v1alpha1.PodProtector) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ended := e.endedAt[p.UID]; ended {
		return
	}
	if e.counted == nil {
		e.counted = map[types.NamespacedName]types.UID{}
	}
	e.counted[client.ObjectKeyFromObject(p)] = p.UID
}

// recordExists records that the watch shows a protector. A protector that ended exists again if its core was restored.
func (e *endedProtectors) recordExists(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.endedAt, uid)
}

// delayFor returns how long a protector that was never counted must wait until the removals admitted by an earlier one of its name have taken
// effect.
func (e *endedProtectors) delayFor(p *v1alpha1.PodProtector, deadline time.Duration, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := client.ObjectKeyFromObject(p)
	if uid, counted := e.counted[key]; counted && uid != p.UID {
		// The cache shows the new one, and its watch has not reported the end of the old one yet.
		return max(p.Spec.AdmissionHistory.AggregationRateOrDefault(), 100*time.Millisecond)
	}
	ended, known := e.ended[key]
	if !known || ended.uid == p.UID || ended.at.IsZero() {
		return 0
	}
	return max(ended.at.Add(deadline+ended.updates).Sub(now), 0)
}

// protectorHistory remembers what the watch of protectors has shown, also while another process leads the cell.
type protectorHistory struct {
	cell      string
	monotonic func() time.Time
	// ended are the protectors that ended recently.
	ended endedProtectors
	// transitions are the specs of protectors that changed recently.
	transitions transitions
}

// seen handles the state of a protector that the watch shows. The watch does not show the spec of a protector that another shard
// counts.
func (h *protectorHistory) seen(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	switch {
	case !ok:
	case clusters.IsStub(p):
		h.transitions.forget(p)
	default:
		h.ended.recordExists(p.UID)
		h.transitions.record(p, h.cell, h.monotonic())
	}
}

// replaced handles an update of the watch, which shows one protector in place of another if it missed the deletion.
func (h *protectorHistory) replaced(old, now any) {
	p, ok := old.(*v1alpha1.PodProtector)
	if next, isNext := now.(*v1alpha1.PodProtector); ok && isNext && p.UID != next.UID {
		h.ended.recordEnd(p, h.cell, true, h.monotonic())
	}
}

// deleted handles a deletion. A watch that missed it passes the last state that it has.
func (h *protectorHistory) deleted(obj any) {
	tombstone, missed := obj.(toolscache.DeletedFinalStateUnknown)
	if missed {
		obj = tombstone.Obj
	}
	if p, ok := obj.(*v1alpha1.PodProtector); ok {
		h.ended.recordEnd(p, h.cell, missed, h.monotonic())
		h.transitions.forget(p)
	}
}
