package aggregator

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// protectorMap is a map by protector that is safe for concurrent use. The zero value is empty and ready to use.
type protectorMap[V any] struct {
	mu sync.Mutex
	of map[types.NamespacedName]V
}

// get returns the value of a protector; the zero value if there is none.
func (m *protectorMap[V]) get(protector types.NamespacedName) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[protector]
}

func (m *protectorMap[V]) set(protector types.NamespacedName, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName]V{}
	}
	m.of[protector] = value
}

func (m *protectorMap[V]) forget(protector types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, protector)
}

func (m *protectorMap[V]) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.of)
}

func (m *protectorMap[V]) clone() map[types.NamespacedName]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.of)
}

// addKeysIn adds the protectors of some slots to keys.
func (m *protectorMap[V]) addKeysIn(slots slot.Set, keys map[types.NamespacedName]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	addKeysIn(slots, m.of, keys)
}

// addKeysIn adds to keys the protectors of a map that are in some slots.
func addKeysIn[V any](slots slot.Set, of map[types.NamespacedName]V, keys map[types.NamespacedName]bool) {
	for key := range of {
		if slots.Has(slot.Of(key.Namespace)) {
			keys[key] = true
		}
	}
}

// protectorStates are the parts of a leadership that keep state by protector.
type protectorStates []interface {
	forget(protector types.NamespacedName)
	addKeysIn(slots slot.Set, keys map[types.NamespacedName]bool)
}

// forget drops the state of a protector.
func (s protectorStates) forget(protector types.NamespacedName) {
	for _, state := range s {
		state.forget(protector)
	}
}

// forgetIn drops the state of the protectors of some slots. No worker may work on them.
func (s protectorStates) forgetIn(slots slot.Set) {
	keys := map[types.NamespacedName]bool{}
	for _, state := range s {
		state.addKeysIn(slots, keys)
	}
	for key := range keys {
		s.forget(key)
	}
}

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// discardNotification discards a notification that arrived in the meantime, which the coming round covers.
func discardNotification[T any](from <-chan T) {
	select {
	case <-from:
	default:
	}
}

// notificationDelay is how long the receiver of a notification waits, so that it handles several changes at once.
const notificationDelay = 10 * time.Millisecond
