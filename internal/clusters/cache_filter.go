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

// stubAnnotation is the annotation of a stub: a protector in a cache of which only the metadata is kept. Breakwater never stores it. A user who
// puts it on a protector makes components read that protector from the API server each time.
const stubAnnotation = "breakwater.dev/left-out"

// CacheFilter is the set of slots whose protectors a process works on. Its cache keeps only those protectors whole: a shard would otherwise
// need as much memory as the whole. The stubs of the others hold nothing that could be mistaken for their state; see Protectors.Newest.
type CacheFilter struct {
	mu      sync.Mutex
	slotsOf map[string]slot.Set
	// all is the union of the slots in slotsOf.
	all slot.Set
}

// Select configures a cache to hold protectors this way.
func (f *CacheFilter) Select(options *cache.Options) {
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	strip := cache.TransformStripManagedFields()
	options.ByObject[&v1alpha1.PodProtector{}] = cache.ByObject{Transform: func(object any) (any, error) {
		if p, ok := object.(*v1alpha1.PodProtector); ok && !f.includes(p.Namespace) {
			return stubOf(p), nil
		}
		return strip(object)
	}}
}

// Set replaces the slots that owner works on. The cache keeps a protector of a new slot whole from its next change.
func (f *CacheFilter) Set(owner string, slots slot.Set) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slotsOf == nil {
		f.slotsOf = map[string]slot.Set{}
	}
	if f.slotsOf[owner] = slots; slots.Empty() {
		delete(f.slotsOf, owner)
	}
	f.all = slot.Set{}
	for _, some := range f.slotsOf {
		f.all = f.all.Or(some)
	}
}

func (f *CacheFilter) includes(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.Has(slot.Of(namespace))
}

// StripExcluded replaces protectors that no caller works on with stubs, in the store of an informer. A stub may replace a newer state of its
// protector. That does no harm, since a stub carries no state.
func (f *CacheFilter) StripExcluded(from toolscache.Store) {
	if f == nil {
		return
	}
	for _, object := range from.List() {
		if p, ok := object.(*v1alpha1.PodProtector); ok && !IsStub(p) && !f.includes(p.Namespace) {
			_ = from.Update(stubOf(p)) // an in-memory store, whose keys are those of its objects
		}
	}
}

// RestoreIncluded puts a protector that was read from the API server into the store of an informer, if the store holds a stub of this very version.
func (f *CacheFilter) RestoreIncluded(into toolscache.Store, p *v1alpha1.PodProtector) {
	stored, exists, _ := into.GetByKey(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String())
	cached, ok := stored.(*v1alpha1.PodProtector)
	if !exists || !ok || !IsStub(cached) || cached.ResourceVersion != p.ResourceVersion || !f.includes(p.Namespace) {
		return
	}
	whole := p.DeepCopy() // p shares memory with the page of its list, which must not be kept
	whole.ManagedFields = nil
	_ = into.Update(whole) // an in-memory store, whose keys are those of its objects
}

func stubOf(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: stubAnnotations,
	}}
}

// stubAnnotations is shared by all stubs: no code may change an object in a cache.
var stubAnnotations = map[string]string{stubAnnotation: ""} //nolint:gochecknoglobals // a constant that Go cannot express

// IsStub reports whether a protector in a cache is a stub, of which only the metadata is kept.
func IsStub(p *v1alpha1.PodProtector) bool {
	_, marked := p.Annotations[stubAnnotation]
	return marked
}
