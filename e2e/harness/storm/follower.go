package storm

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// relistPause is how long a follower waits after a broken stream, so that it does not overload an API server that is down.
const relistPause = 50 * time.Millisecond

// follower keeps one cell's stream alive: it makes a quorum list, then a watch from there, and starts again when the watch breaks.
type follower struct {
	recorder *Recorder
	index    int
	listed   func() // called after the first list
	// inSync is when the stream was last in sync: changes that a list finds happened after it.
	inSync time.Duration
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.setStreamError(fmt.Errorf("cell %s: %w", f.cell().Name, err))
		select {
		case <-time.After(relistPause):
		case <-ctx.Done():
		}
	}
}

func (f *follower) cell() Cell { return f.recorder.scope.Cells[f.index] }

func (f *follower) follow(ctx context.Context) error {
	scope := f.recorder.scope
	client := f.cell().Client.CoreV1().Pods(scope.Namespace)
	// No resourceVersion: the list returns the newest pods, never those of an old cache.
	pods, err := client.List(ctx, metav1.ListOptions{LabelSelector: scope.Selector})
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	f.handleList(pods.Items)
	stream, err := client.Watch(ctx, metav1.ListOptions{
		LabelSelector:       scope.Selector,
		ResourceVersion:     pods.ResourceVersion,
		AllowWatchBookmarks: true,
	})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	defer stream.Stop()
	f.setStreamError(nil)
	return f.readEvents(ctx, stream.ResultChan())
}

// readEvents reads the watch until it ends, and wakes up when a pod becomes available by time.
func (f *follower) readEvents(ctx context.Context, events <-chan watch.Event) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		f.resetTimer(timer)
		select {
		case event, open := <-events:
			if !open {
				return errors.New("the watch of the pods ended")
			}
			if err := f.handleEvent(event); err != nil {
				return err
			}
		case <-timer.C:
			f.record(f.recorder.slack, func(c *podSet) []change { return c.refresh(time.Now()) })
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) resetTimer(timer *time.Timer) {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	if at, ok := f.recorder.podSets[f.index].nextRefresh(time.Now()); ok {
		timer.Reset(time.Until(at))
	}
}

func (f *follower) handleEvent(event watch.Event) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Error:
		return fmt.Errorf("watch the pods: %w", apierrors.FromObject(event.Object))
	default:
		f.inSync = time.Since(f.recorder.start)
		return nil
	}
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watch the pods: unexpected object %T", event.Object)
	}
	f.record(f.recorder.slack, func(c *podSet) []change {
		if event.Type == watch.Deleted {
			return c.remove(pod.UID)
		}
		return c.update(pod, time.Now())
	})
	return nil
}

// handleList takes the first list as the baseline. The changes that a later list finds happened at some time since the stream broke.
func (f *follower) handleList(pods []corev1.Pod) {
	if f.listed == nil {
		gap := time.Since(f.recorder.start) - f.inSync + f.recorder.slack
		f.record(gap, func(c *podSet) []change { return c.replace(pods, time.Now()) })
		return
	}
	f.recorder.mu.Lock()
	census := f.recorder.podSets[f.index]
	census.replace(pods, time.Now())
	f.recorder.streams[f.index].Baseline = census.available()
	f.recorder.available[f.index] = census.available()
	f.inSync = time.Since(f.recorder.start)
	f.recorder.mu.Unlock()
	f.listed()
	f.listed = nil
}

// record records changes that happened at most uncertainty ago.
func (f *follower) record(uncertainty time.Duration, apply func(*podSet) []change) {
	r := f.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := time.Since(r.start)
	changes := apply(r.podSets[f.index])
	for _, c := range changes {
		stream := &r.streams[f.index]
		stream.Events = append(stream.Events, Event{
			Change: c.change, Pod: c.pod, Earliest: max(0, seen-uncertainty), Seen: seen,
		})
		r.available[f.index] += c.change.step()
	}
	f.inSync = seen
	if len(changes) > 0 {
		r.history = append(r.history, r.point())
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

func (f *follower) setStreamError(err error) {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	f.recorder.streamErrors[f.index] = err
}
