package aggregator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// settleDelay records since when a leadership has known that the counts of a protector are void.
type settleDelay struct {
	uid   types.UID
	since time.Time
}

// settleDelayOf returns how long a protector must not be counted yet. Reservations made with a protector that vanished, or in the
// lost history of a core, may be unknown. So the first valid count uses a list that is read when the admission deadline has
// passed, on this machine's clock, since the leadership observed that the counts are void. By then every removal that was admitted
// before has taken effect or never will. An update that has taken effect may still restart a container until the update
// timeout has passed as well.
func (l *leadership) settleDelayOf(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	_, isRecreated := p.Annotations[v1alpha1.AnnotationRestored]
	isVoid := cell == nil && (isRecreated || l.restored > 0 && l.monotonic().Sub(l.ownedSince(p.Namespace)) < l.maxInFlight(p)) ||
		cell != nil && cell.Aggregation.Void
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isVoid {
		delete(l.settleDelays, key)
		return 0
	}
	delay, ok := l.settleDelays[key]
	if !ok || delay.uid != p.UID {
		delay = settleDelay{p.UID, l.monotonic()}
		l.settleDelays[key] = delay
	}
	wait := delay.since.Add(l.maxInFlight(p)).Sub(l.monotonic())
	if wait > 0 {
		delete(l.initialCounts, key) // a list that was read earlier is too old
	}
	return wait
}

// delayAfterDeletion returns how long a protector must not be counted yet because another protector of its name has just ended.
func (l *leadership) delayAfterDeletion(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	if cell != nil {
		return 0
	}
	wait := l.endedProtectors.delayFor(p, time.Duration(l.admissionDeadline.Load()), l.monotonic())
	if wait > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.initialCounts, key) // for the same reason
	}
	return wait
}
