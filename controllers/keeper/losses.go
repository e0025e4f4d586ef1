package keeper

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Losses are the protectors that vanished without having been released, as they were seen last. All replicas remember
// them, and the one that leads makes them anew. A process that starts later does not know of them.
type Losses struct {
	mu  sync.Mutex
	all map[types.NamespacedName]loss
	// tell is told of each; nil while nobody leads.
	tell func(types.NamespacedName)
}

type loss struct {
	// last is what is remembered, gone what vanished: the same, or one that was made anew by last and not whole yet.
	last, gone *v1alpha1.PodProtector
}

// NewLosses returns none.
func NewLosses() *Losses { return &Losses{all: map[types.NamespacedName]loss{}} }

// Note takes in that a protector is not there any more, by its last state.
func (l *Losses) Note(last *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(last)
	l.mu.Lock()
	before, known := l.all[key]
	// One that was made anew and is gone before its status was whole has nothing to remember itself.
	again := known && string(before.last.UID) == last.Annotations[v1alpha1.AnnotationRestored]
	if !clusters.Vanished(last) {
		if again {
			delete(l.all, key) // it was released
		}
		l.mu.Unlock()
		return
	}
	now := loss{last: last, gone: last}
	if again {
		now.last = before.last
	}
	l.all[key] = now
	tell := l.tell
	l.mu.Unlock()
	if tell != nil {
		tell(key)
	}
}

// see takes in a protector that is there: one that somebody else has made in the place of a lost one is as it is.
func (l *Losses) see(p *v1alpha1.PodProtector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(p)
	if lost, ok := l.all[key]; ok && string(lost.last.UID) != p.Annotations[v1alpha1.AnnotationRestored] && lost.last.UID != p.UID {
		delete(l.all, key)
	}
}

// Has tells whether a protector has vanished and is not made anew yet.
func (l *Losses) Has(key types.NamespacedName) bool {
	_, ok := l.of(key)
	return ok
}

// Find returns one of those, by its last state.
func (l *Losses) Find(is func(last *v1alpha1.PodProtector) bool) (last *v1alpha1.PodProtector, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lost := range l.all {
		if is(lost.last) {
			return lost.last, true
		}
	}
	return nil, false
}

func (l *Losses) of(key types.NamespacedName) (loss, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, ok := l.all[key]
	return lost, ok
}

// Forget implements generator.Losses.
func (l *Losses) Forget(last *v1alpha1.PodProtector) {
	l.forget(client.ObjectKeyFromObject(last), last.UID)
}

func (l *Losses) forget(key types.NamespacedName, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost, ok := l.all[key]; ok && lost.last.UID == uid {
		delete(l.all, key)
	}
}

func (l *Losses) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// follow tells of all that there are, and of each that comes.
func (l *Losses) follow(tell func(types.NamespacedName)) {
	l.mu.Lock()
	l.tell = tell
	all := maps.Clone(l.all)
	l.mu.Unlock()
	for key := range all {
		tell(key)
	}
}

// handler takes in what a watch shows.
func (l *Losses) handler() toolscache.ResourceEventHandler {
	see := func(obj any) {
		if p, ok := obj.(*v1alpha1.PodProtector); ok {
			l.see(p)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: see,
		// A watch that was away may find another one of the name, and never show that the one before went.
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*v1alpha1.PodProtector)
			if after, okToo := obj.(*v1alpha1.PodProtector); ok && okToo && before.UID != after.UID {
				l.Note(before)
			}
			see(obj)
		},
		DeleteFunc: func(obj any) {
			if tombstone, unwatched := obj.(toolscache.DeletedFinalStateUnknown); unwatched {
				obj = tombstone.Obj
			}
			if p, ok := obj.(*v1alpha1.PodProtector); ok {
				l.Note(p)
			}
		},
	}
}
