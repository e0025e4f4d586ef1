package keeper

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Losses are the protectors that vanished without having been released, with their last observed state. All replicas remember
// them, and the leader recreates them. A process that starts later does not have them.
type Losses struct {
	mu  sync.Mutex
	all map[types.NamespacedName]loss
	// enqueue is called for each loss; nil while this replica does not lead.
	enqueue func(types.NamespacedName)
}

type loss struct {
	// last is the remembered state. vanished is the protector that vanished: the same, or one that was recreated from last and was not complete
	// yet.
	last, vanished *v1alpha1.PodProtector
}

// NewLosses returns an empty set of losses.
func NewLosses() *Losses { return &Losses{all: map[types.NamespacedName]loss{}} }

// Record records that a protector no longer exists, by its last observed state. isUnwatched is set if a list has shown that after its watch was interrupted.
func (l *Losses) Record(last *v1alpha1.PodProtector, isUnwatched bool) {
	key := client.ObjectKeyFromObject(last)
	l.mu.Lock()
	before, exists := l.all[key]
	isRecreated := exists && string(before.last.UID) == last.Annotations[v1alpha1.AnnotationRestored]
	if isLost := clusters.WasLost(last) || isUnwatched && clusters.MayBeLost(last); !isLost {
		if isRecreated {
			delete(l.all, key) // it was released
		}
		l.mu.Unlock()
		return
	}
	now := loss{last: last, vanished: last}
	if isRecreated && quota.IsRestorePending(last) {
		now.last = before.last // last has no status of its own to remember
	}
	l.all[key] = now
	enqueue := l.enqueue
	l.mu.Unlock()
	if enqueue != nil {
		enqueue(key)
	}
}

// observe records that a protector exists. If another client created it in place of a lost one, it stays as it is and the loss is forgotten.
func (l *Losses) observe(p *v1alpha1.PodProtector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(p)
	if lost, ok := l.all[key]; ok && string(lost.last.UID) != p.Annotations[v1alpha1.AnnotationRestored] && lost.last.UID != p.UID {
		delete(l.all, key)
	}
}

// Has reports whether a protector has vanished and is not recreated yet.
func (l *Losses) Has(key types.NamespacedName) bool {
	_, ok := l.get(key)
	return ok
}

// Find returns the last state of a loss for which is returns true.
func (l *Losses) Find(matches func(last *v1alpha1.PodProtector) bool) (last *v1alpha1.PodProtector, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lost := range l.all {
		if matches(lost.last) {
			return lost.last, true
		}
	}
	return nil, false
}

func (l *Losses) get(key types.NamespacedName) (loss, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, ok := l.all[key]
	return lost, ok
}

// Forget implements generator.Losses.
func (l *Losses) Forget(last *v1alpha1.PodProtector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(last)
	if lost, ok := l.all[key]; ok && lost.last.UID == last.UID {
		delete(l.all, key)
	}
}

// remove forgets a loss that get returned, unless the protector has vanished again since.
func (l *Losses) remove(key types.NamespacedName, lost loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[key].vanished == lost.vanished {
		delete(l.all, key)
	}
}

func (l *Losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// subscribe calls enqueue for each present loss, and for each later one.
func (l *Losses) subscribe(enqueue func(types.NamespacedName)) {
	l.mu.Lock()
	l.enqueue = enqueue
	all := maps.Clone(l.all)
	l.mu.Unlock()
	for key := range all {
		enqueue(key)
	}
}

// handler returns a handler that records the events of a watch.
func (l *Losses) handler() toolscache.ResourceEventHandler {
	observe := func(obj any) {
		if p, ok := obj.(*v1alpha1.PodProtector); ok {
			l.observe(p)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: observe,
		// A watch that was interrupted may find another protector of the same name, and never show the deletion of the earlier one.
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*v1alpha1.PodProtector)
			if after, okAfter := obj.(*v1alpha1.PodProtector); ok && okAfter && before.UID != after.UID {
				l.Record(before, true)
			}
			observe(obj)
		},
		DeleteFunc: func(obj any) {
			tombstone, isUnwatched := obj.(toolscache.DeletedFinalStateUnknown)
			if isUnwatched {
				obj = tombstone.Obj
			}
			if p, ok := obj.(*v1alpha1.PodProtector); ok {
				l.Record(p, isUnwatched)
			}
		},
	}
}
