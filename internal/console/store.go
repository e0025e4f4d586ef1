package console

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

const (
	// maxPoints is the maximum number of points of all histories. Each takes 48 bytes.
	maxPoints = 2_000_000
	// maxDenials is the maximum number of denials in total, and maxDenialsEach per protector. reducedDenialsEach is the limit per protector when
	// the total is exceeded.
	maxDenials         = 65_536
	maxDenialsEach     = 20
	reducedDenialsEach = 3
	// eventLifetime is how long API servers keep events.
	eventLifetime = time.Hour
	sweepEvery    = time.Minute
)

// store holds the data from the watches. It is safe for concurrent use.
type store struct {
	now func() time.Time
	// restored is the latest resource version of the core at which a cell detected a restore of the core.
	restored atomic.Uint64

	mu          sync.RWMutex
	rows        map[types.NamespacedName]row
	denials     map[types.NamespacedName][]denial.Denial // newest first
	denialCount int                                      // total number of denials
	histories   *history.Histories[types.NamespacedName]
	heartbeats  map[string]heartbeat
	// restoredEvents are the counts of denials that restored histories contain already.
	restoredEvents map[restoredEvent]int
	changes        uint64
	lastSweep      time.Time
	began          time.Time
}

// newStore returns an empty store with at most points points of history.
func newStore(now func() time.Time, points int) *store {
	return &store{
		now: now, began: now(), rows: map[types.NamespacedName]row{}, denials: map[types.NamespacedName][]denial.Denial{},
		histories: history.NewHistories[types.NamespacedName](points), heartbeats: map[string]heartbeat{},
		restoredEvents: map[restoredEvent]int{},
	}
}

// update applies a change to the store and increments the change counter.
func (s *store) update(do func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	do(now)
	s.changes++
	if now.Sub(s.lastSweep) >= sweepEvery {
		s.sweep(now)
	}
}

// setProtector records the latest state of a protector.
func (s *store) setProtector(p *v1alpha1.PodProtector) {
	v := statusOf("", p, s.restored.Load(), s.now())
	shown := rowOf(&v)
	s.update(func(now time.Time) {
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		s.rows[key] = shown
		s.histories.Observe(key, now, shown.sample())
	})
}

// interrupt records that nothing is known since a time: the core became unreachable.
func (s *store) interrupt(since time.Time) {
	s.update(func(time.Time) {
		for key := range s.rows {
			s.histories.Observe(key, since, history.Sample{})
		}
	})
}

// deleteProtector records that a protector was deleted.
func (s *store) deleteProtector(key types.NamespacedName) {
	s.update(func(now time.Time) {
		delete(s.rows, key)
		s.histories.MarkDeleted(key, now)
	})
}

// setHeartbeat records the latest state of a cell. It reports whether the cell detected another restore of the core. The caller must then
// recompute all protectors.
func (s *store) setHeartbeat(cell *v1alpha1.Cell) (restored bool) {
	if version := status.RestoredVersion(*cell); version > s.restored.Load() {
		s.restored.Store(version)
		restored = true
	}
	last := cell.Status.Aggregator.LastHeartbeat
	if last == nil {
		return restored
	}
	s.update(func(now time.Time) {
		before, known := s.heartbeats[cell.Name]
		if !known || !before.value.Equal(last.Time) {
			s.heartbeats[cell.Name] = heartbeat{value: last.Time, at: now, changed: known}
		}
	})
	return restored
}

// deleteCell records that a cell was deleted.
func (s *store) deleteCell(cell string) { s.update(func(time.Time) { delete(s.heartbeats, cell) }) }

// addDenial records the latest state of an event about denials. It does not count the earlier denials of the event again.
func (s *store) addDenial(key types.NamespacedName, d denial.Denial) {
	s.update(func(now time.Time) {
		all, removals := s.denials[key], d.Count
		if at := slices.IndexFunc(all, func(o denial.Denial) bool { return o.Event == d.Event }); at >= 0 {
			removals -= all[at].Count
			all = slices.Delete(slices.Clone(all), at, at+1)
			s.denialCount--
		} else {
			removals -= s.restoredEvents[restoredEvent{key, d.Event}]
		}
		all = append([]denial.Denial{d}, all...)
		slices.SortStableFunc(all, func(a, b denial.Denial) int { return b.Last.Compare(a.Last) })
		s.denials[key] = all[:min(len(all), maxDenialsEach)]
		s.denialCount += 1 + len(s.denials[key]) - len(all)
		if removals > 0 && !d.Forced {
			s.histories.AddDenials(key, now, d.Last, int32(min(removals, 1<<30)))
		}
		if s.denialCount > maxDenials {
			s.trimDenials(now, reducedDenialsEach)
		}
	})
}

// sweep drops old data.
func (s *store) sweep(now time.Time) {
	s.lastSweep = now
	s.histories.Sweep(now)
	if now.Sub(s.began) >= eventLifetime {
		clear(s.restoredEvents) // their events have expired
	}
	s.trimDenials(now, maxDenialsEach)
}

// trimDenials keeps at most each denials per protector, and drops those whose events have expired.
func (s *store) trimDenials(now time.Time, each int) {
	s.denialCount = 0
	maps.DeleteFunc(s.denials, func(key types.NamespacedName, all []denial.Denial) bool {
		old := slices.IndexFunc(all, func(d denial.Denial) bool { return now.Sub(d.Last) >= eventLifetime })
		if old < 0 {
			old = len(all)
		}
		s.denials[key] = slices.Clone(all[:min(old, each)])
		s.denialCount += len(s.denials[key])
		return len(s.denials[key]) == 0
	})
}
