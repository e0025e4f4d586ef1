package webhook

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// conflictLog records when a write of a protector last met a conflict. In a storm, a conflict comes from another replica.
// It is safe for concurrent use.
type conflictLog struct {
	now func() time.Time
	at  sync.Map
}

func (l *conflictLog) record(protector types.NamespacedName) { l.at.Store(protector, l.now()) }

func (l *conflictLog) forget(protector types.NamespacedName) { l.at.Delete(protector) }

// isRecent reports whether a write of a protector has met a conflict within the given duration.
func (l *conflictLog) isRecent(protector types.NamespacedName, within time.Duration) bool {
	at, ok := l.at.Load(protector)
	return ok && l.now().Sub(at.(time.Time)) <= within //nolint:forcetypeassert // the map holds only times
}
