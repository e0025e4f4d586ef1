package snapshot

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// streamFilter leaves out of the stream what does not belong to the snapshot.
type streamFilter struct {
	// scope selects the pods of the stream that belong to the cell; set before the stream begins.
	scope scope.Scope
	// slots is the subset of them that the snapshot keeps; nil is all.
	slots *slotSubset
	// EventSettlement may need the events of other pods too.
	eventSettlement *modes.EventSettlement
	// mu is the mutex of the snapshot, which guards slots. The methods of streamFilter lock it. The snapshot holds it where it uses slots.
	mu *sync.Mutex
}

// outsidePod represents all pods of a streamed list that are not the cell's.
var outsidePod = &pod{} //nolint:gochecknoglobals // effectively a constant

// beginList records the slots of the list that begins now, and returns a function that reports which namespaces of it to keep.
func (f *streamFilter) beginList() (keeps func(namespace string) bool) {
	if f.slots == nil {
		return func(string) bool { return true }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots.listing = f.slots.wanted
	listing := f.slots.listing
	return func(namespace string) bool { return listing.Has(slot.Of(namespace)) }
}

// filterList wraps a list and returns only pods of the cell, and of the part that the snapshot keeps.
func (f *streamFilter) filterList(
	list func(context.Context, metav1.ListOptions) (*corev1.PodList, error),
) func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	if f.scope.HasAllPods() && f.slots == nil {
		return list
	}
	keeps := f.beginList()
	return func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		page, err := list(ctx, options)
		if err == nil {
			page.Items = slices.DeleteFunc(page.Items, func(p corev1.Pod) bool {
				return !keeps(p.Namespace) || !f.scope.Has(p.Namespace, p.Labels)
			})
		}
		return page, err
	}
}

// filterWatch filters the pods of slots that the snapshot does not keep out of a watch, before any component stores them. It replaces an
// event of such a pod by a bookmark with its version, so that the snapshot is as new as the cell. It drops such a pod from a list
// entirely, because the order of a list carries no information. A slot that is taken later is listed again, so that nothing is
// missed.
//
// Where reservations end by time, the time of any pod counts. Then all events pass.
func (f *streamFilter) filterWatch(
	open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) func(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if f.slots == nil {
		return open
	}
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, options)
		if err != nil {
			return nil, err
		}
		return clusters.FilterWatch(w, slotFilter(stream.StartsWithList(options), f.isFiltered)), nil
	}
}

// isFiltered reports whether an event is of a pod that the snapshot does not keep and that carries no other information.
func (f *streamFilter) isFiltered(event watch.Event, listing bool) bool {
	p, ok := event.Object.(*corev1.Pod)
	if !ok || event.Type == watch.Bookmark || !listing && f.eventSettlement.IsActive() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.slots.wanted.Has(slot.Of(p.Namespace))
}

// slotFilter returns a filter for a watch that leaves events out. listing reports whether the watch begins with a list.
func slotFilter(listing bool, isFiltered func(event watch.Event, listing bool) bool) func(watch.Event) (watch.Event, bool) {
	return func(event watch.Event) (watch.Event, bool) {
		p, ok := event.Object.(*corev1.Pod)
		switch {
		case ok && event.Type == watch.Bookmark:
			listing = listing && p.Annotations[metav1.InitialEventsAnnotationKey] != "true"
		case !isFiltered(event, listing):
		case listing:
			return event, false
		default:
			event = watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{
				TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: p.ResourceVersion},
			}}
		}
		return event, true
	}
}
