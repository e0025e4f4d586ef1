package ownership

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Map is a map by protector that is safe for concurrent use. The zero value is empty and ready to use.
type Map[V any] struct {
	mu sync.Mutex
	Of map[types.NamespacedName]V
}

// Get returns the value of a protector; the zero value if there is none.
func (m *Map[V]) Get(protector types.NamespacedName) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Of[protector]
}

// Set sets the value of a protector.
func (m *Map[V]) Set(protector types.NamespacedName, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Of == nil {
		m.Of = map[types.NamespacedName]V{}
	}
	m.Of[protector] = value
}

// Forget removes the value of a protector.
func (m *Map[V]) Forget(protector types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.Of, protector)
}

// Clear removes all values.
func (m *Map[V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.Of)
}

// Clone returns a copy of the map.
func (m *Map[V]) Clone() map[types.NamespacedName]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.Of)
}

// AddKeysIn adds the protectors of some slots to keys.
func (m *Map[V]) AddKeysIn(slots slot.Set, keys map[types.NamespacedName]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	AddKeysIn(slots, m.Of, keys)
}

// AddKeysIn adds to keys the protectors of a map that are in some slots.
func AddKeysIn[V any](slots slot.Set, of map[types.NamespacedName]V, keys map[types.NamespacedName]bool) {
	for key := range of {
		if slots.Has(slot.Of(key.Namespace)) {
			keys[key] = true
		}
	}
}

// States are the parts of a leadership that keep state by protector.
type States []interface {
	Forget(protector types.NamespacedName)
	AddKeysIn(slots slot.Set, keys map[types.NamespacedName]bool)
}

// Forget drops the state of a protector.
func (s States) Forget(protector types.NamespacedName) {
	for _, state := range s {
		state.Forget(protector)
	}
}

// ForgetIn drops the state of the protectors of some slots. No worker may work on them.
func (s States) ForgetIn(slots slot.Set) {
	keys := map[types.NamespacedName]bool{}
	for _, state := range s {
		state.AddKeysIn(slots, keys)
	}
	for key := range keys {
		s.Forget(key)
	}
}

// Notify sends a notification, unless one is waiting to be received.
func Notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// DiscardNotification discards a notification that arrived in the meantime, which the coming round covers.
func DiscardNotification[T any](from <-chan T) {
	select {
	case <-from:
	default:
	}
}

// NotificationDelay is how long the receiver of a notification waits, so that it handles several changes at once.
const NotificationDelay = 10 * time.Millisecond
