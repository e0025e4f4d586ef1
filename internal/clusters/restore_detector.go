package clusters

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// RestoreDetector detects that a core cluster was restored from an etcd backup. A restore loses the reservations that were written since the backup,
// and starts a new core incarnation. The resourceVersions of a core increase one by one. After a restore they go back or, if the user
// follows the advice of etcd, jump far ahead of all earlier ones.
type RestoreDetector struct {
	mu sync.Mutex
	// highest is the highest version observed in the current core incarnation, lostHighest that of the incarnation before. incarnation
	// counts the restores.
	highest, lostHighest uint64
	incarnation          int
	listeners            []func()
}

// Mark is the state of a RestoreDetector when an operation began.
type Mark struct {
	highest     uint64
	incarnation int
}

// Mark returns the mark for an operation that begins now.
func (d *RestoreDetector) Mark() Mark {
	if d == nil {
		return Mark{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return Mark{d.highest, d.incarnation}
}

// IsSameIncarnation reports whether the core is still in the incarnation that it had at the mark.
func (d *RestoreDetector) IsSameIncarnation(mark Mark) bool {
	return d == nil || d.Mark().incarnation == mark.incarnation
}

// LostVersion returns the highest version of the incarnation that the last restore ended, or 0 if there was no restore. If the user restored the
// core as etcd advises, every object that it stores since has a higher version.
func (d *RestoreDetector) LostVersion() uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lostHighest
}

// OnRestore registers a function that is called on each detected restore. It must not block.
func (d *RestoreDetector) OnRestore(listener func()) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners = append(d.listeners, listener)
}

// Observe records a version that the core returned, for a state that is no older than the operation that began at the mark. It reports
// whether the core is still in the incarnation that it had at the mark.
func (d *RestoreDetector) Observe(mark Mark, resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if d == nil || err != nil {
		return true
	}
	d.mu.Lock()
	observed := classify(mark, Mark{d.highest, d.incarnation}, d.lostHighest, version)
	var listeners []func()
	switch observed {
	case ofCurrentIncarnation, ofLostIncarnation:
		d.highest = max(d.highest, version)
	case ofNewIncarnation: // rule 11
		d.lostHighest, d.highest = d.highest, version
		d.incarnation++
		listeners = d.listeners
	}
	d.mu.Unlock()
	for _, listener := range listeners {
		listener()
	}
	return observed == ofCurrentIncarnation
}

// observation is what a version shows about the core incarnation of the operation that returned it:
//
//	observation           meaning                                      the detector                     Observe returns
//	ofCurrentIncarnation  the version follows those before the mark    raises the highest version       true
//	ofNewIncarnation      the core was restored since the mark         starts the next incarnation,     false
//	                                                                   and calls the listeners
//	ofLostIncarnation     the operation began before a restore that    raises the highest version       false
//	                      was detected already, and shows no other
type observation int

const (
	ofCurrentIncarnation observation = iota
	ofNewIncarnation
	ofLostIncarnation
)

// classify returns what a version shows that an operation returned. now is the mark of an operation that would begin now, and lostHighest
// the highest version of the incarnation before.
func classify(mark, now Mark, lostHighest, version uint64) observation {
	switch {
	case mark.incarnation != now.incarnation:
		return ofLostIncarnation
	case now.incarnation > 0 && mark.highest <= lostHighest && lostHighest < now.highest:
		return ofLostIncarnation // a watch that began in the lost incarnation may continue until its next event
	case mark.highest > 0 && ShowsRestore(mark.highest, version):
		return ofNewIncarnation
	default:
		return ofCurrentIncarnation
	}
}

// ShowsRestore reports whether a version shows a restore, given an earlier version of the same core from shortly before.
func ShowsRestore(earlier, version uint64) bool {
	return version < earlier || version-earlier >= quota.RestoreLeap
}

// observeList records the version of a list that began at a mark.
func (d *RestoreDetector) observeList(mark Mark, list runtime.Object) {
	if accessor, err := meta.ListAccessor(list); err == nil {
		d.Observe(mark, accessor.GetResourceVersion())
	}
}

// observeWatch records the versions that a watch shows. A watch that begins with all existing objects sends them in any order, and sends
// its own version after them.
func (d *RestoreDetector) observeWatch(mark Mark, from watch.Interface, initial bool) watch.Interface {
	return FilterWatch(from, func(event watch.Event) (watch.Event, bool) {
		if object, err := meta.Accessor(event.Object); err == nil && event.Type != watch.Error {
			initial = initial && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
			if !initial {
				d.Observe(mark, object.GetResourceVersion())
				mark = d.markOf(object.GetResourceVersion())
			}
		}
		return event, true
	})
}

// markOf returns the mark of a watch that has reached a version: its later events are no older.
func (d *RestoreDetector) markOf(resourceVersion string) Mark {
	mark := d.Mark()
	if version, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		mark.highest = version
	}
	return mark
}
