package aggregator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// quiet records since when a term has known that the counts of a protector are void.
type quiet struct {
	uid   types.UID
	since time.Time
}

// quiet returns how long a protector must not be counted yet. Reservations made with a protector that vanished, or in the
// lost history of a core, may be unknown. So the first valid count uses a list that is read when the admission deadline has
// passed, on this machine's clock, since the term observed that the counts are void. By then every removal that was admitted
// before has taken effect or never will. An update that has taken effect may still restart a container until the update
// timeout has passed as well.
func (t *term) quiet(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	_, anew := p.Annotations[v1alpha1.AnnotationRestored]
	void := cell == nil && (anew || t.leadership.restored > 0 && t.monotonic().Sub(t.sinceOf(p.Namespace)) < t.underWay(p)) || cell != nil && cell.Aggregation.Void
	t.mu.Lock()
	defer t.mu.Unlock()
	if !void {
		delete(t.quiets, key)
		return 0
	}
	known, ok := t.quiets[key]
	if !ok || known.uid != p.UID {
		known = quiet{p.UID, t.monotonic()}
		t.quiets[key] = known
	}
	wait := known.since.Add(t.underWay(p)).Sub(t.monotonic())
	if wait > 0 {
		delete(t.firsts, key) // a list that was read earlier is too old
	}
	return wait
}

// afterEnding returns how long a protector must not be counted yet because another protector of its name has just ended.
func (t *term) afterEnding(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	if cell != nil {
		return 0
	}
	wait := t.endings.wait(p, time.Duration(t.admissionDeadline.Load()), t.monotonic())
	if wait > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.firsts, key) // for the same reason
	}
	return wait
}
