package aggregator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// filterWatch filters the pods of slots that the snapshot does not keep out of a watch, before any component stores them. It replaces an
// event of such a pod by a bookmark with its version, so that the snapshot is as new as the cell. It drops such a pod from a list
// entirely, because the order of a list carries no information. A slot that is taken later is listed again, so that nothing is
// missed.
//
// Where reservations end by time, the time of any pod counts. Then all events pass.
func (s *Snapshot) filterWatch(
	open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) func(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if s.slots == nil {
		return open
	}
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, options)
		if err != nil {
			return nil, err
		}
		return clusters.FilterWatch(w, slotFilter(startsWithList(options), s.isFiltered)), nil
	}
}

// isFiltered reports whether an event is of a pod that the snapshot does not keep and that carries no other information.
func (s *Snapshot) isFiltered(event watch.Event, listing bool) bool {
	p, ok := event.Object.(*corev1.Pod)
	if !ok || event.Type == watch.Bookmark || !listing && !s.eventClock.isExact() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.slots.wanted.Has(slot.Of(p.Namespace))
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
