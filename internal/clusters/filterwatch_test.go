package clusters_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestFilteredWatchPassesKeptEvents(t *testing.T) {
	from := watch.NewFakeWithChanSize(3, false)
	from.Add(&corev1.Pod{})
	from.Delete(&corev1.Pod{})
	from.Modify(&corev1.Pod{})
	from.Stop()
	filtered := clusters.FilterWatch(from, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Modified {
			event.Type = watch.Bookmark
		}
		return event, event.Type != watch.Deleted
	})
	var got []watch.EventType
	for event := range filtered.ResultChan() {
		got = append(got, event.Type)
	}
	if len(got) != 2 || got[0] != watch.Added || got[1] != watch.Bookmark {
		t.Errorf("the watch showed %v, want ADDED and BOOKMARK", got)
	}
}

// synctest fails if the goroutine of the watch outlives the test.
func TestFilteredWatchStopsWithoutReceiver(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		from := watch.NewFakeWithChanSize(1, false)
		filtered := clusters.FilterWatch(from, func(event watch.Event) (watch.Event, bool) { return event, true })
		from.Add(&corev1.Pod{})
		synctest.Wait()
		filtered.Stop()
		filtered.Stop()
	})
}
