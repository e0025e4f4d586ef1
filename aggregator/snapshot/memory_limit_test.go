package snapshot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
)

// largePod returns a pod whose labels take bytes bytes.
func largePod(name string, bytes int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": strings.Repeat("x", bytes)}}}
}

func TestEndlessListFails(t *testing.T) {
	most, pages := stream.NewMemoryLimit("pods", 1<<20), 0
	endless := func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
		pages++
		page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"}}
		for i := range stream.PageSize {
			page.Items = append(page.Items, *largePod(fmt.Sprint(pages, "-", i), 100))
		}
		return page, nil
	}
	for range 2 { // each list restarts the count
		pages = 0
		_, err := listStripped(t.Context(), metav1.ListOptions{}, &stream.Continuity{Now: time.Now}, most, stripping(0), endless)
		if err == nil || !strings.Contains(err.Error(), "more pods than a cluster can have") || pages < 5 || pages > 15 {
			t.Errorf("the list ends after %d pages with error %v, want an error about pods after some 10 pages", pages, err)
		}
	}
}

func TestEndlessWatchFails(t *testing.T) {
	changes := func(event watch.EventType, number, bytes int) []watch.Event {
		var all []watch.Event
		for i := range number {
			all = append(all, watch.Event{Type: event, Object: largePod(fmt.Sprint(i), bytes)})
		}
		return all
	}
	var replaced, changed, interleaved []watch.Event
	for i := range 100 {
		replaced = append(append(replaced, changes(watch.Added, 100, 100)...), changes(watch.Deleted, 100, 100)...)
		changed = append(changed, changes(watch.Modified, 100, 100+i)...)
		for n := range 100 {
			interleaved = append(interleaved,
				watch.Event{Type: watch.Deleted, Object: largePod(fmt.Sprint("unknown-", n), 200)},
				watch.Event{Type: watch.Added, Object: largePod(fmt.Sprint(i, "-", n), 100)})
		}
	}
	for _, test := range []struct {
		claim  string
		events []watch.Event
		fails  bool
	}{
		{"as many pods as a cell has", changes(watch.Added, 1000, 100), false},
		{"pods without end", changes(watch.Added, 10_000, 100), true},
		{"few pods that are huge", changes(watch.Added, 20, 100<<10), true},
		{"pods that come and go", replaced, false},
		{"pods that change often", changed, false},
		{"pods without end, and deletions of unknown pods", interleaved, true},
		{"changes of unknown pods without end", changes(watch.Modified, 10_000, 100), true},
		{"pods that change and are huge", changes(watch.Modified, 100, 100<<10), true},
	} {
		t.Run(test.claim, func(t *testing.T) {
			most, source := stream.NewMemoryLimit("pods", 1<<20), watch.NewFakeWithChanSize(len(test.events), false)
			for _, event := range test.events {
				source.Action(event.Type, event.Object)
			}
			source.Stop()
			w, err := most.WrapWatch(func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil })(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			failed, timeout := false, time.After(10*time.Second)
			for open := true; open; {
				select {
				case event, more := <-w.ResultChan():
					failed, open = failed || event.Type == watch.Error, more
				case <-timeout:
					t.Fatal("the watch does not end")
				}
			}
			if failed != test.fails {
				t.Errorf("the watch failed: %t, want %t", failed, test.fails)
			}
		})
	}
}
