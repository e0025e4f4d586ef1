package clusters

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// FilterWatch returns a watch that passes each event of another watch through filter, and drops the events that filter does not keep.
// Unlike watch.Filter, it also ends after Stop when its events are no longer received.
func FilterWatch(source watch.Interface, filter func(watch.Event) (event watch.Event, keep bool)) watch.Interface {
	f := &filteredWatch{source: source, results: make(chan watch.Event), stopped: make(chan struct{})}
	go f.forward(filter)
	return f
}

type filteredWatch struct {
	source  watch.Interface
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func (f *filteredWatch) forward(filter func(watch.Event) (watch.Event, bool)) {
	defer close(f.results)
	for event := range f.source.ResultChan() {
		event, keep := filter(event)
		if !keep {
			continue
		}
		select {
		case f.results <- event:
		case <-f.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (f *filteredWatch) ResultChan() <-chan watch.Event { return f.results }

// Stop implements watch.Interface.
func (f *filteredWatch) Stop() {
	f.stop.Do(func() { close(f.stopped) })
	f.source.Stop()
}
