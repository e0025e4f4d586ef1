package webhook

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// conflictLog records when a write of a protector last met a conflict. In a storm, a conflict comes from another replica.
// The zero value is ready, and safe for concurrent use.
type conflictLog struct{ at sync.Map }

func (l *conflictLog) record(protector types.NamespacedName) { l.at.Store(protector, time.Now()) }

func (l *conflictLog) forget(protector types.NamespacedName) { l.at.Delete(protector) }

// isRecent reports whether a write of a protector has met a conflict within the given duration.
func (l *conflictLog) isRecent(protector types.NamespacedName, within time.Duration) bool {
	at, ok := l.at.Load(protector)
	return ok && time.Since(at.(time.Time)) <= within //nolint:forcetypeassert // the map holds only times
}
