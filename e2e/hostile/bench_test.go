package hostile_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkStormUnderFlood removes the same number of pods without and with a flood by an unauthenticated caller. It reports the 99th
// percentile of a removal in both cases, in milliseconds, and their ratio.
func BenchmarkStormUnderFlood(b *testing.B) {
	for b.Loop() {
		alone := percentile(timeRemovals(b, nil))
		flooded := percentile(timeRemovals(b, func(ctx context.Context, c *caller) func() { return c.flood(ctx, 500, 8, 4, 8) }))
		b.ReportMetric(float64(alone.Milliseconds()), "alone-p99-ms")
		b.ReportMetric(float64(flooded.Milliseconds()), "flooded-p99-ms")
		b.ReportMetric(float64(flooded)/float64(alone), "flooded/alone")
	}
}

func percentile(each []time.Duration) time.Duration {
	slices.Sort(each)
	return each[len(each)*99/100]
}

// timeRemovals removes 500 pods of one cell with 16 clients, and returns how long each removal took.
func timeRemovals(b *testing.B, flood func(ctx context.Context, c *caller) (wait func())) (each []time.Duration) {
	b.Helper()
	const pods, spare, clients = 500, 50, 16
	l := suite.NewFixture(b, nil)
	l.CreateProtector(1)
	l.CreateBarePods(l.Application(len(l.Cells) * (pods + spare)))
	existing := l.ExistingPods(l.Cells[0])
	ctx, end := context.WithCancel(l.Context())
	defer end()
	if flood != nil {
		wait := flood(ctx, newCaller(l))
		defer wait()
		defer end()
		<-time.After(2 * time.Second) // the flood has all its connections
	}
	todo := make(chan string, pods)
	for i := range pods {
		todo <- existing[i].Name
	}
	close(todo)
	var mu sync.Mutex
	var removing sync.WaitGroup
	for range clients {
		removing.Go(func() {
			for name := range todo {
				requestedAt := time.Now()
				err := l.DeletePod(l.Cells[0], name)
				took := time.Since(requestedAt)
				mu.Lock()
				if each = append(each, took); err != nil {
					b.Errorf("remove pod %s: %v", name, err)
				}
				mu.Unlock()
			}
		})
	}
	removing.Wait()
	return each
}
