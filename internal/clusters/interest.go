package clusters

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// leftOut is the annotation of a stub: a protector in a cache of which only the metadata is kept. Breakwater never stores it. A user who
// puts it on a protector makes components read that protector from the API server each time.
const leftOut = "breakwater.dev/left-out"

// Interest is the set of slots whose protectors a process works on. Its cache keeps only those protectors whole: a shard would otherwise
// need as much memory as the whole. The stubs of the others hold nothing that could be mistaken for their state; see Protectors.Newest.
type Interest struct {
	mu sync.Mutex
	of map[string]slot.Set
	// all is the union of the slots in of.
	all slot.Set
}

// Select configures a cache to hold protectors this way.
func (i *Interest) Select(options *cache.Options) {
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	strip := cache.TransformStripManagedFields()
	options.ByObject[&v1alpha1.PodProtector{}] = cache.ByObject{Transform: func(object any) (any, error) {
		if p, ok := object.(*v1alpha1.PodProtector); ok && !i.has(p.Namespace) {
			return without(p), nil
		}
		return strip(object)
	}}
}

// Set replaces the slots that the caller who works on. The cache keeps a protector of a new slot whole from its next change.
func (i *Interest) Set(who string, slots slot.Set) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of == nil {
		i.of = map[string]slot.Set{}
	}
	if i.of[who] = slots; slots.Empty() {
		delete(i.of, who)
	}
	i.all = slot.Set{}
	for _, theirs := range i.of {
		i.all = i.all.Or(theirs)
	}
}

func (i *Interest) has(namespace string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all.Has(slot.Of(namespace))
}

// LeaveOut replaces protectors that no caller works on with stubs, in the store of an informer. A stub may replace a newer state of its
// protector. That does no harm, since a stub carries no state.
func (i *Interest) LeaveOut(from toolscache.Store) {
	if i == nil {
		return
	}
	for _, object := range from.List() {
		if p, ok := object.(*v1alpha1.PodProtector); ok && !IsLeftOut(p) && !i.has(p.Namespace) {
			_ = from.Update(without(p)) // an in-memory store, whose keys are those of its objects
		}
	}
}

// TakeIn puts a protector that was read from the API server into the store of an informer, if the store holds a stub of this very version.
func (i *Interest) TakeIn(into toolscache.Store, p *v1alpha1.PodProtector) {
	held, there, _ := into.GetByKey(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String())
	known, ok := held.(*v1alpha1.PodProtector)
	if !there || !ok || !IsLeftOut(known) || known.ResourceVersion != p.ResourceVersion || !i.has(p.Namespace) {
		return
	}
	whole := p.DeepCopy() // p shares memory with the page of its list, which must not be kept
	whole.ManagedFields = nil
	_ = into.Update(whole) // an in-memory store, whose keys are those of its objects
}

// without returns the stub of a protector.
func without(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: marked,
	}}
}

// marked is shared by all stubs: no code may change an object in a cache.
var marked = map[string]string{leftOut: ""} //nolint:gochecknoglobals // a constant that Go cannot express

// IsLeftOut reports whether a protector in a cache is a stub, of which only the metadata is kept.
func IsLeftOut(p *v1alpha1.PodProtector) bool {
	_, is := p.Annotations[leftOut]
	return is
}
