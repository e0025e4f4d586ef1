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

// leftOut is on a protector in a cache of which nothing is kept but that it is there. It is never stored: who puts it on a protector
// makes it be read from the apiserver each time.
const leftOut = "breakwater.dev/left-out"

// Interest is the slots whose protectors a process works on. Its cache keeps those alone as they are: a shard would not be smaller
// than the whole otherwise. Of the others nothing is left that could be mistaken for a state of theirs; see Protectors.Newest.
type Interest struct {
	mu sync.Mutex
	of map[string]slot.Set
	// all is what any of them is interested in.
	all slot.Set
}

// Select makes a cache hold protectors so.
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

// Set says which slots somebody is interested in from now on. What comes to be of interest is kept whole when it changes next.
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

// LeaveOut takes what nobody is interested in any more out of what an informer holds. That it may put an older state in the place of
// a newer one does no harm, since it has none.
func (i *Interest) LeaveOut(from toolscache.Store) {
	if i == nil {
		return
	}
	for _, object := range from.List() {
		if p, ok := object.(*v1alpha1.PodProtector); ok && !IsLeftOut(p) && !i.has(p.Namespace) {
			_ = from.Update(without(p)) // a store in memory, whose keys are those of what it holds
		}
	}
}

// TakeIn puts a protector that was read from the apiserver into what an informer holds, if that has left out this very state of it.
func (i *Interest) TakeIn(into toolscache.Store, p *v1alpha1.PodProtector) {
	held, there, _ := into.GetByKey(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String())
	known, ok := held.(*v1alpha1.PodProtector)
	if !there || !ok || !IsLeftOut(known) || known.ResourceVersion != p.ResourceVersion || !i.has(p.Namespace) {
		return
	}
	whole := p.DeepCopy() // the page that it came in goes
	whole.ManagedFields = nil
	_ = into.Update(whole) // a store in memory, whose keys are those of what it holds
}

// without is a protector of which nothing is kept.
func without(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: marked,
	}}
}

// marked is shared by all protectors that are left out: nobody changes what is in a cache.
var marked = map[string]string{leftOut: ""} //nolint:gochecknoglobals // a constant in all but the language's sense

// IsLeftOut tells whether nothing is known of a protector in a cache but that it is there.
func IsLeftOut(p *v1alpha1.PodProtector) bool {
	_, is := p.Annotations[leftOut]
	return is
}
