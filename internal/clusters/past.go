package clusters

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Past notices that a core cluster has another past than the one that this process remembers: its etcd was restored from a
// backup, and what was reserved since is lost. The versions of a core go on one by one. Those of a restored one go back or,
// as etcd advises, are far ahead of all that it gave before.
type Past struct {
	mu sync.Mutex
	// high is the highest version that was seen of the present past, lost of the one before; era counts them.
	high, lost uint64
	era        int
	told       []func()
}

// leap is how far a core goes on at most while somebody watches it. A watch hears of its version at least once in a few
// minutes; who was cut off for a day, from a core that writes a thousand times a second, takes it for restored.
const leap = 100_000_000

// Mark is what was known of a core when something began.
type Mark struct {
	high uint64
	era  int
}

// Mark returns what is known now, for what begins now.
func (p *Past) Mark() Mark {
	if p == nil {
		return Mark{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark{p.high, p.era}
}

// IsSince tells whether the core still has the past that it had at a mark.
func (p *Past) IsSince(mark Mark) bool { return p == nil || p.Mark().era == mark.era }

// Lost is the highest version of the past that was lost last; 0 while none was. What a core that was restored as etcd
// advises stores has a higher one.
func (p *Past) Lost() uint64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Tell lets somebody be told each time. It must not block.
func (p *Past) Tell(told func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, told)
}

// Observe takes in a version that the core gave, of a state that is no older than what began at the mark. It tells whether
// the core still has the past that it had then.
func (p *Past) Observe(mark Mark, resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if p == nil || err != nil {
		return true
	}
	p.mu.Lock()
	// A watch of the lost past may go on until its next event.
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

// IsAnotherPast tells whether a version cannot follow on an earlier one, at which the same core was seen shortly before.
func IsAnotherPast(earlier, version uint64) bool { return version < earlier || version-earlier >= leap }

// observeList takes in a list that began at a mark.
func (p *Past) observeList(mark Mark, list runtime.Object) {
	if accessor, err := meta.ListAccessor(list); err == nil {
		p.Observe(mark, accessor.GetResourceVersion())
	}
}

// observeWatch takes in what a watch shows. One that begins with all objects that there are shows them in any order, and
// tells of its version after them.
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

// markOf is the mark of a watch that has come to a version: what it shows next is no older.
func (p *Past) markOf(resourceVersion string) Mark {
	mark := p.Mark()
	if version, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		mark.high = version
	}
	return mark
}
