package clusters

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Past detects that a core cluster was restored from an etcd backup. A restore loses the reservations that were written since the backup,
// and starts a new core incarnation. The resourceVersions of a core increase one by one. After a restore they go back or, if the user
// follows the advice of etcd, jump far ahead of all earlier ones.
type Past struct {
	mu sync.Mutex
	// high is the highest version observed in the current core incarnation, lost that of the incarnation before. era counts the
	// incarnations.
	high, lost uint64
	era        int
	told       []func()
}

// leap is the smallest increase of versions that counts as a restore while a process watches the core. A watch receives the current version
// at least once every few minutes. A process that was disconnected for about a day, from a core that writes 1,000 times a second, treats
// the core as restored.
const leap = 100_000_000

// Mark is the state of a Past when an operation began.
type Mark struct {
	high uint64
	era  int
}

// Mark returns the mark for an operation that begins now.
func (p *Past) Mark() Mark {
	if p == nil {
		return Mark{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark{p.high, p.era}
}

// IsSince reports whether the core is still in the incarnation that it had at the mark.
func (p *Past) IsSince(mark Mark) bool { return p == nil || p.Mark().era == mark.era }

// Lost returns the highest version of the incarnation that the last restore ended, or 0 if there was no restore. If the user restored the
// core as etcd advises, every object that it stores since has a higher version.
func (p *Past) Lost() uint64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Tell registers a function that is called on each detected restore. It must not block.
func (p *Past) Tell(told func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, told)
}

// Observe records a version that the core returned, for a state that is no older than the operation that began at the mark. It reports
// whether the core is still in the incarnation that it had at the mark.
func (p *Past) Observe(mark Mark, resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if p == nil || err != nil {
		return true
	}
	p.mu.Lock()
	// A watch that began in the lost incarnation may continue until its next event.
	stale := mark.era != p.era || mark.high <= p.lost && p.lost < p.high && p.era > 0
	noticed := !stale && mark.high > 0 && IsAnotherPast(mark.high, version)
	same := !stale && !noticed
	if noticed {
		p.lost, p.high = p.high, version
		p.era++
	} else {
		p.high = max(p.high, version)
	}
	told := p.told
	p.mu.Unlock()
	if noticed {
		for _, tell := range told {
			tell()
		}
	}
	return same
}

// IsAnotherPast reports whether a version shows a restore, given an earlier version of the same core from shortly before.
func IsAnotherPast(earlier, version uint64) bool { return version < earlier || version-earlier >= leap }

// observeList records the version of a list that began at a mark.
func (p *Past) observeList(mark Mark, list runtime.Object) {
	if accessor, err := meta.ListAccessor(list); err == nil {
		p.Observe(mark, accessor.GetResourceVersion())
	}
}

// observeWatch records the versions that a watch shows. A watch that begins with all existing objects sends them in any order, and sends
// its own version after them.
func (p *Past) observeWatch(mark Mark, from watch.Interface, initial bool) watch.Interface {
	return FilterWatch(from, func(event watch.Event) (watch.Event, bool) {
		if object, err := meta.Accessor(event.Object); err == nil && event.Type != watch.Error {
			initial = initial && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
			if !initial {
				p.Observe(mark, object.GetResourceVersion())
				mark = p.markOf(object.GetResourceVersion())
			}
		}
		return event, true
	})
}

// markOf returns the mark of a watch that has reached a version: its later events are no older.
func (p *Past) markOf(resourceVersion string) Mark {
	mark := p.Mark()
	if version, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		mark.high = version
	}
	return mark
}
