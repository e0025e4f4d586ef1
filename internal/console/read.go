package console

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// version returns a number that increases with each change of a core.
func (s *server) version() (sum uint64) {
	for _, c := range s.cores {
		sum += c.store.version()
	}
	return sum
}

// version returns a number that increases with each change.
func (s *store) version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changes
}

// namespaces returns the namespaces that have protectors, sorted.
func (s *store) namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[string]bool{}
	for key := range s.rows {
		all[key.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// protectors returns the rows of the namespaces for which seen is true. They include denials where denied is true.
func (s *store) protectors(seen, denied func(namespace string) bool) []row {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.now()
	var rows []row
	for key, r := range s.rows {
		if !seen(key.Namespace) {
			continue
		}
		if denied(key.Namespace) {
			r.listing = r.withDenials(s.denials[key], now)
		}
		rows = append(rows, r)
	}
	return rows
}

// denialsOf returns the denials of a protector, newest first.
func (s *store) denialsOf(key types.NamespacedName) []denial.Denial {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.denials[key]
}

// historyOf returns the history of a protector in a window up to now, and the time since which it has data.
func (s *store) historyOf(key types.NamespacedName, now time.Time, window time.Duration) (points []history.Point, since time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	series := s.histories.Of(key)
	if series == nil {
		return nil, time.Time{}
	}
	return series.Points(now, window), series.Since()
}

// heartbeatOf returns what was observed of a cell's heartbeats.
func (s *store) heartbeatOf(cell string) heartbeat {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.heartbeats[cell]
}
