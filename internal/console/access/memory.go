package access

import (
	"maps"
	"sync"
	"time"
)

// memory caches answers for a limited time, and at most most of them.
type memory[Key comparable, Answer any] struct {
	now  func() time.Time
	most int

	mu  sync.Mutex
	all map[Key]kept[Answer]
}

type kept[Answer any] struct {
	answer Answer
	until  time.Time
}

func newMemory[Key comparable, Answer any](now func() time.Time, most int) *memory[Key, Answer] {
	return &memory[Key, Answer]{now: now, most: most, all: map[Key]kept[Answer]{}}
}

func (m *memory[Key, Answer]) get(key Key) (answer Answer, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.all[key]
	if !ok || !m.now().Before(found.until) {
		return answer, false
	}
	return found.answer, true
}

// put caches an answer. If the cache is full, it removes expired answers and then arbitrary ones: they can be requested again.
func (m *memory[Key, Answer]) put(key Key, answer Answer, lifetime time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if len(m.all) >= m.most {
		maps.DeleteFunc(m.all, func(_ Key, k kept[Answer]) bool { return !now.Before(k.until) })
	}
	for other := range m.all {
		if len(m.all) < m.most {
			break
		}
		delete(m.all, other)
	}
	m.all[key] = kept[Answer]{answer: answer, until: now.Add(lifetime)}
}

// drop removes an answer.
func (m *memory[Key, Answer]) drop(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}
