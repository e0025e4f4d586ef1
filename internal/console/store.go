package console

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/model"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

const (
	// mostPoints is the maximum number of points of all histories. Each takes 48 bytes.
	mostPoints = 2_000_000
	// mostDenials is the maximum number of denials in total, and denialsEach per protector. fewDenials is the limit per protector when
	// the total is exceeded.
	mostDenials = 65_536
	denialsEach = 20
	fewDenials  = 3
	// forgetAfter is how long API servers keep events.
	forgetAfter = time.Hour
	sweepEvery  = time.Minute
)

// store holds the data from the watches. It is safe for concurrent use.
type store struct {
	now func() time.Time
	// restored is the latest resource version of the core at which a cell detected a restore of the core.
	restored atomic.Uint64
	// from reads all protectors from the cache.
	from client.Reader

	mu      sync.RWMutex
	rows    map[types.NamespacedName]model.Row
	denials map[types.NamespacedName][]model.Denial // newest first
	noted   int                                     // total number of denials
	past    *history.Book[types.NamespacedName]
	beats   map[string]beat
	changes uint64
	swept   time.Time
	began   time.Time
}

// beat is the last heartbeat of a cell, by the aggregator's clock, and when the console saw it, by its own clock.
type beat struct {
	value time.Time
	heard model.Heard
}

func newStore(now func() time.Time) *store {
	return &store{
		now: now, began: now(), rows: map[types.NamespacedName]model.Row{}, denials: map[types.NamespacedName][]model.Denial{},
		past: history.NewBook[types.NamespacedName](mostPoints), beats: map[string]beat{},
	}
}

// change applies a change to the store and increments the change counter.
func (s *store) change(do func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	do(now)
	s.changes++
	if now.Sub(s.swept) >= sweepEvery {
		s.sweep(now)
	}
}

// protect records the latest state of a protector.
func (s *store) protect(p *v1alpha1.PodProtector) {
	row := model.RowOf(p, s.restored.Load())
	s.change(func(now time.Time) {
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		s.rows[key] = row
		s.past.Observe(key, now, row.Sample())
	})
}

// lose records that a protector was deleted.
func (s *store) lose(key types.NamespacedName) {
	s.change(func(now time.Time) {
		delete(s.rows, key)
		s.past.End(key, now)
	})
}

// hear records the latest state of a cell. It reports whether the cell detected another restore of the core. The caller must then
// recompute all protectors.
func (s *store) hear(cell *v1alpha1.Cell) (again bool) {
	if version := status.Restored(*cell); version > s.restored.Load() {
		s.restored.Store(version)
		again = true
	}
	last := cell.Status.Aggregator.LastHeartbeat
	if last == nil {
		return again
	}
	s.change(func(now time.Time) {
		before, known := s.beats[cell.Name]
		if !known || !before.value.Equal(last.Time) {
			s.beats[cell.Name] = beat{value: last.Time, heard: model.Heard{At: now, Moved: known}}
		}
	})
	return again
}

// leave records that a cell was deleted.
func (s *store) leave(cell string) { s.change(func(time.Time) { delete(s.beats, cell) }) }

// deny records the latest state of an event about denials. It does not count the earlier denials of the event again.
func (s *store) deny(key types.NamespacedName, d model.Denial) {
	s.change(func(now time.Time) {
		all, removals := s.denials[key], d.Count
		if at := slices.IndexFunc(all, func(o model.Denial) bool { return o.Event == d.Event }); at >= 0 {
			removals -= all[at].Count
			all = slices.Delete(slices.Clone(all), at, at+1)
			s.noted--
		}
		all = append([]model.Denial{d}, all...)
		slices.SortStableFunc(all, func(a, b model.Denial) int { return b.Last.Compare(a.Last) })
		s.denials[key] = all[:min(len(all), denialsEach)]
		s.noted += 1 + len(s.denials[key]) - len(all)
		if removals > 0 && !d.Forced {
			s.past.Refuse(key, now, d.Last, int32(min(removals, 1<<30)))
		}
		if s.noted > mostDenials {
			s.shed(now, fewDenials)
		}
	})
}

// sweep drops old data.
func (s *store) sweep(now time.Time) {
	s.swept = now
	s.past.Sweep(now)
	s.shed(now, denialsEach)
}

// shed keeps at most each denials per protector, and drops those whose events have expired.
func (s *store) shed(now time.Time, each int) {
	s.noted = 0
	maps.DeleteFunc(s.denials, func(key types.NamespacedName, all []model.Denial) bool {
		old := slices.IndexFunc(all, func(d model.Denial) bool { return now.Sub(d.Last) >= forgetAfter })
		if old < 0 {
			old = len(all)
		}
		s.denials[key] = slices.Clone(all[:min(old, each)])
		s.noted += len(s.denials[key])
		return len(s.denials[key]) == 0
	})
}
