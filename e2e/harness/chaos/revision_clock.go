package chaos

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	readInterval = 10 * time.Millisecond
	readTimeout  = 500 * time.Millisecond
)

// revisionClock repeatedly reads the revision of an etcd by linearizable reads. So it bounds the time of a revision by the test's own clock
// alone: a read of revision n that began after t proves that n+1 was stored after t, and a read that ended before t proves that n was
// stored before t. While etcd is down the bounds are only wider.
type revisionClock struct {
	etcd    *clientv3.Client
	start   time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	reads []revisionRead
}

// revisionRead is one read: at some time between sent and answered, etcd was at the revision.
type revisionRead struct {
	sent, answered time.Duration
	revision       int64
}

func startRevisionClock(ctx context.Context, etcd *clientv3.Client, start time.Time) *revisionClock {
	ctx, stop := context.WithCancel(ctx)
	c := &revisionClock{etcd: etcd, start: start, stop: stop}
	c.running.Go(func() {
		ticker := time.NewTicker(readInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = c.read(ctx) // faults stop an etcd on purpose
			case <-ctx.Done():
				return
			}
		}
	})
	return c
}

func (c *revisionClock) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	sent := time.Since(c.start)
	head, err := revisionOf(ctx, c.etcd)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, revisionRead{sent: sent, answered: time.Since(c.start), revision: head})
	return nil
}

// stopReading stops the reads and returns when the last one has ended.
func (c *revisionClock) stopReading() {
	c.stop()
	c.running.Wait()
}

// bounds returns a function that bounds when a revision was stored, for revisions stored between begin and end.
func (c *revisionClock) bounds(begin, end time.Duration) func(int64) (time.Duration, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return boundsOf(c.reads, begin, end)
}

// boundsOf returns a function that bounds when a revision was stored. The reads are in the order of their start.
func boundsOf(reads []revisionRead, begin, end time.Duration) func(int64) (time.Duration, time.Duration) {
	return func(revision int64) (earliest, latest time.Duration) {
		earliest, latest = begin, end
		for _, read := range reads {
			if read.revision < revision {
				earliest = max(earliest, read.sent)
			} else {
				latest = min(latest, read.answered)
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
