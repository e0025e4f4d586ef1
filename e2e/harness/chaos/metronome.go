package chaos

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	beat        = 10 * time.Millisecond
	beatTimeout = 500 * time.Millisecond
)

// metronome repeatedly reads the revision of an etcd by linearizable reads. So it bounds the time of a revision by the test's own clock
// alone: a read of revision n that began after t proves that n+1 was stored after t, and a read that ended before t proves that n was
// stored before t. While etcd is down the bounds are only wider.
type metronome struct {
	etcd    *clientv3.Client
	start   time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	beats []beatAt
}

// beatAt is one read: at some time between asked and answered the etcd was at the revision.
type beatAt struct {
	asked, answered time.Duration
	revision        int64
}

func startMetronome(ctx context.Context, etcd *clientv3.Client, start time.Time) *metronome {
	ctx, stop := context.WithCancel(ctx)
	m := &metronome{etcd: etcd, start: start, stop: stop}
	m.running.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = m.beat(ctx) // faults stop an etcd on purpose
			case <-ctx.Done():
				return
			}
		}
	})
	return m
}

func (m *metronome) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	asked := time.Since(m.start)
	head, err := revisionOf(ctx, m.etcd)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beats = append(m.beats, beatAt{asked: asked, answered: time.Since(m.start), revision: head})
	return nil
}

// end stops the metronome.
func (m *metronome) end() {
	m.stop()
	m.running.Wait()
}

// bounds returns a function that bounds when a revision was stored, for revisions stored between begin and end.
func (m *metronome) bounds(begin, end time.Duration) func(int64) (time.Duration, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return boundsOf(m.beats, begin, end)
}

// boundsOf returns a function that bounds when a revision was stored. The beats are in the order of their start.
func boundsOf(beats []beatAt, begin, end time.Duration) func(int64) (time.Duration, time.Duration) {
	return func(revision int64) (earliest, latest time.Duration) {
		earliest, latest = begin, end
		for _, b := range beats {
			if b.revision < revision {
				earliest = max(earliest, b.asked)
			} else {
				latest = min(latest, b.answered)
			}
		}
		return earliest, latest
	}
}

// revisionOf reads the revision of an etcd. The read is linearizable, which is the default.
func revisionOf(ctx context.Context, etcd *clientv3.Client) (int64, error) {
	response, err := etcd.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return response.Header.Revision, nil
}
