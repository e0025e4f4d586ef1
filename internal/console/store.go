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
	// mostPoints bounds the points of all timelines, of 48 bytes each.
	mostPoints = 2_000_000
	// mostDenials bounds what is kept of denials in all, denialsEach of one protector, and fewDenials when there are too many.
	mostDenials = 65_536
	denialsEach = 20
	fewDenials  = 3
	// forgetAfter is how long apiservers keep events.
	forgetAfter = time.Hour
	sweepEvery  = time.Minute
)

// store is what watches have told. It is for several goroutines at once.
type store struct {
	now func() time.Time
	// restored is the last version of the core at which a cell noticed that it had been restored.
	restored atomic.Uint64
	// from has all protectors.
	from client.Reader

	mu      sync.RWMutex
	rows    map[types.NamespacedName]model.Row
	denials map[types.NamespacedName][]model.Denial // the newest first
	noted   int                                     // denials in all
	past    *history.Book[types.NamespacedName]
	beats   map[string]beat
	changes uint64
	swept   time.Time
	began   time.Time
}

// beat is the newest heartbeat of a cell, by its own clock, and since when it is known by ours.
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

// change lets somebody change the store, and notes that something is new.
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

// protect takes in the newest state of a protector.
func (s *store) protect(p *v1alpha1.PodProtector) {
	row := model.RowOf(p, s.restored.Load())
	s.change(func(now time.Time) {
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		s.rows[key] = row
		s.past.Observe(key, now, row.Sample())
	})
}

// lose notes that a protector is gone.
func (s *store) lose(key types.NamespacedName) {
	s.change(func(now time.Time) {
		delete(s.rows, key)
		s.past.End(key, now)
	})
}

// hear takes in the newest state of a cell, and tells whether it has noticed that the core was restored: then protectors are to be
// taken in again.
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

// leave notes that a cell is gone.
func (s *store) leave(cell string) { s.change(func(time.Time) { delete(s.beats, cell) }) }

// deny takes in the newest state of an event that tells of denials. What it told before is not counted again.
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

// sweep forgets what is old.
func (s *store) sweep(now time.Time) {
	s.swept = now
	s.past.Sweep(now)
	s.shed(now, denialsEach)
}

// shed keeps so many of the denials of each protector, and none that apiservers have forgotten.
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
