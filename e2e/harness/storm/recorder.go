package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultSlack is how late a watch event may reach the recorder before a judgement could be unjust.
const DefaultSlack = 500 * time.Millisecond

// Recorder watches the pods of a scope in all its cells and keeps a record of their availability.
type Recorder struct {
	scope   Scope
	slack   time.Duration
	start   time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	podSets      []*podSet
	streams      []Stream
	available    []int // available by cell
	history      []Point
	changed      chan struct{} // closed and replaced at every event
	streamErrors []error       // why a cell's stream is broken; nil while it is not
}

// RecorderOptions configure a recorder.
type RecorderOptions struct {
	// MinReadySeconds is that of the application.
	MinReadySeconds int32
	// Slack is how late a watch event may reach the recorder; 0 means DefaultSlack. A test that stalls an API server's watches needs more.
	Slack time.Duration
}

// StartRecorder starts to record and returns when all cells have been listed. Call it before the first removal: changes between the lists
// of two cells cannot be distinguished from the initial state.
func StartRecorder(ctx context.Context, scope Scope, options RecorderOptions) (*Recorder, error) {
	// The streams outlive the call; Stop ends them.
	streaming, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Recorder{
		scope:        scope,
		slack:        cmp.Or(options.Slack, DefaultSlack),
		start:        time.Now(),
		stop:         stop,
		available:    make([]int, len(scope.Cells)),
		changed:      make(chan struct{}),
		streamErrors: make([]error, len(scope.Cells)),
	}
	listed := make(chan struct{}, len(scope.Cells))
	for i, cell := range scope.Cells {
		r.podSets = append(r.podSets, newPodSet(cell, options.MinReadySeconds))
		r.streams = append(r.streams, Stream{Cell: cell.Name})
		f := &follower{recorder: r, index: i, listed: func() { listed <- struct{}{} }}
		r.running.Go(func() { f.run(streaming) })
	}
	for range scope.Cells {
		select {
		case <-listed:
		case <-ctx.Done():
			err := fmt.Errorf("list the pods of all cells: %w", errors.Join(append(r.StreamErrors(), ctx.Err())...))
			r.Stop()
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = slices.Insert(r.history, 0, r.baseline())
	return r, nil
}

// baseline returns the point at the start of the record.
func (r *Recorder) baseline() Point {
	var point Point
	for _, stream := range r.streams {
		point.Cells = append(point.Cells, stream.Baseline)
		point.Total += stream.Baseline
	}
	return point
}

// Stop ends the streams and returns the record.
func (r *Recorder) Stop() Record {
	r.stop()
	r.running.Wait()
	return r.Record()
}

// Record returns the record so far.
func (r *Recorder) Record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := Record{Start: r.start, Duration: time.Since(r.start), Streams: slices.Clone(r.streams)}
	for i := range record.Streams {
		record.Streams[i].Events = slices.Clone(record.Streams[i].Events)
	}
	return record
}

// Now returns the available pods as they were last seen. The timeline of Judge can differ, because Judge also uses later events.
func (r *Recorder) Now() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.point()
}

func (r *Recorder) point() Point {
	point := Point{At: time.Since(r.start), Cells: slices.Clone(r.available)}
	for _, n := range r.available {
		point.Total += n
	}
	return point
}

// Wait returns when the available pods are as wanted. Its error has their present numbers, and the errors of the streams.
func (r *Recorder) Wait(ctx context.Context, description string, wanted func(Point) bool) error {
	for {
		r.mu.Lock()
		point, changed := r.point(), r.changed
		r.mu.Unlock()
		if wanted(point) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; available now: %s", description,
				errors.Join(append([]error{ctx.Err()}, r.StreamErrors()...)...), r.describe(point))
		}
	}
}

func (r *Recorder) describe(point Point) string {
	var cells []string
	for i, n := range point.Cells {
		cells = append(cells, fmt.Sprintf("%d in %s", n, r.scope.Cells[i].Name))
	}
	return fmt.Sprintf("%d (%s)", point.Total, strings.Join(cells, ", "))
}

// StreamErrors returns why streams are broken at this time.
func (r *Recorder) StreamErrors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.streamErrors), func(err error) bool { return err == nil })
}

// Pods returns the pods whose deletion has not begun, by cell and name.
func (r *Recorder) Pods() []Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []Pod
	for _, c := range r.podSets {
		from := len(pods)
		for _, uid := range c.living {
			pods = append(pods, c.pods[uid].asPod())
		}
		slices.SortFunc(pods[from:], func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	}
	return pods
}

// Pick returns a random pod whose deletion has not begun.
func (r *Recorder) Pick(random *rand.Rand) (Pod, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return randomPod(r.podSets, random)
}

// History returns the number of available pods at the start and after each event, as they were seen.
func (r *Recorder) History() []Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.history)
}

// Settle returns when nothing has changed for the duration quiet, or when the time limit has passed. It returns an error only if ctx ends.
func (r *Recorder) Settle(ctx context.Context, quiet, limit time.Duration) error {
	timeout := time.After(limit)
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(quiet):
			return nil
		case <-timeout:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait until nothing changes for %s: %w", quiet, ctx.Err())
		}
	}
}
