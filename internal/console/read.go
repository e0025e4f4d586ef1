package console

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/model"
)

// version grows when something has changed.
func (s *store) version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changes
}

// namespaces are those that have protectors, in order.
func (s *store) namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []string
	seen := map[string]bool{}
	for key := range s.rows {
		if !seen[key.Namespace] {
			seen[key.Namespace] = true
			all = append(all, key.Namespace)
		}
	}
	slices.Sort(all)
	return all
}

// protectors are the rows of those namespaces that may be seen, with what was refused where events may be seen.
func (s *store) protectors(seen, denied func(namespace string) bool) []model.Row {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.now()
	var rows []model.Row
	for key, row := range s.rows {
		if !seen(key.Namespace) {
			continue
		}
		if denied(key.Namespace) {
			row = row.WithRefusals(s.denials[key], now)
		}
		rows = append(rows, row)
	}
	return rows
}

// denialsOf are those of a protector, the newest first.
func (s *store) denialsOf(key types.NamespacedName) []model.Denial {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.denials[key]
}

// pastOf is what is known of a protector in a window up to now, and since when.
func (s *store) pastOf(key types.NamespacedName, now time.Time, window time.Duration) (points []history.Point, since time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	series := s.past.Of(key)
	if series == nil {
		return nil, time.Time{}
	}
	return series.Points(now, window), series.Since()
}

// heard is what is known of a cell's heartbeats.
func (s *store) heard(cell string) model.Heard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.beats[cell].heard
}
