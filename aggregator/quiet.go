package aggregator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// quiet is since when a term has known that the counts of a protector are void.
type quiet struct {
	uid   types.UID
	since time.Time
}

// quiet returns how long a protector is not to be counted yet. What was reserved with one that vanished, or in the lost past
// of a core, may not be known. So the first count that is worth anything goes by a list that is read when the admission
// deadline has passed, on this machine's clock, since the counts were seen to be void: by then whatever was admitted before
// has taken effect or never will. An update that has taken effect may restart a container for as long again as its timeout.
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
		delete(t.firsts, key) // a list that was read before does not do
	}
	return wait
}

// afterEnding returns how long a protector is not to be counted yet, since another of its name has just ended.
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
