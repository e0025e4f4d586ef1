package access

import (
	"maps"
	"sync"
	"time"
)

// ttlCache caches answers for a limited time, and at most most of them. It remembers expired answers until they are replaced or the cache is full.
type ttlCache[Key comparable, Answer any] struct {
	now        func() time.Time
	maxEntries int

	mu      sync.Mutex
	entries map[Key]cacheEntry[Answer]
}

type cacheEntry[Answer any] struct {
	answer    Answer
	at, until time.Time
}

func newTTLCache[Key comparable, Answer any](now func() time.Time, most int) *ttlCache[Key, Answer] {
	return &ttlCache[Key, Answer]{now: now, maxEntries: most, entries: map[Key]cacheEntry[Answer]{}}
}

func (m *ttlCache[Key, Answer]) get(key Key) (answer Answer, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.entries[key]
	if !ok || !m.now().Before(found.until) {
		return answer, false
	}
	return found.answer, true
}

// last returns an answer that is at most age old, even if it has expired.
func (m *ttlCache[Key, Answer]) last(key Key, age time.Duration) (answer Answer, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.entries[key]
	if !ok || m.now().Sub(found.at) >= age {
		return answer, false
	}
	return found.answer, true
}

// put caches an answer. If the cache is full, it removes expired answers and then arbitrary ones: they can be requested again.
func (m *ttlCache[Key, Answer]) put(key Key, answer Answer, lifetime time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if len(m.entries) >= m.maxEntries {
		maps.DeleteFunc(m.entries, func(_ Key, k cacheEntry[Answer]) bool { return !now.Before(k.until) })
	}
	for other := range m.entries {
		if len(m.entries) < m.maxEntries {
			break
		}
		delete(m.entries, other)
	}
	m.entries[key] = cacheEntry[Answer]{answer: answer, at: now, until: now.Add(lifetime)}
}

func (m *ttlCache[Key, Answer]) drop(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}
