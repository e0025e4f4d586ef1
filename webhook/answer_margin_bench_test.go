package webhook_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// BenchmarkAnswerLag measures what the margin of an answer has to cover: how much longer a deletion takes for its client than the webhook waits for
// a silent core, while other goroutines use all CPUs. The time includes the TLS handshake of each connection, and the work of the API server before
// and after the review. Deletions that the API server answers itself, since the answer was late, are reported as late.
func BenchmarkAnswerLag(b *testing.B) {
	for _, concurrent := range []int{1, 50, 200} {
		for _, busy := range []int{0, 8} {
			b.Run(fmt.Sprintf("deletions=%d/busy=%d", concurrent, busy), func(b *testing.B) { benchAnswerLag(b, concurrent, busy) })
		}
	}
}

func benchAnswerLag(b *testing.B, concurrent, busy int) {
	b.Helper()
	const timeout = 10 * time.Second
	l := newFixtureFor(b)
	l.protect("web", 5, 1000)
	pods := l.pods(concurrent)
	core := l.proxied()
	l.serve(core.asCore).guard(withTimeout(int32(timeout / time.Second)))
	core.stall()
	defer useCPUs(busy)()
	var lags []time.Duration
	late := 0
	for b.Loop() {
		took := make([]time.Duration, len(pods))
		at := map[string]*time.Duration{}
		for i, pod := range pods {
			at[pod.Name] = &took[i]
		}
		errs := l.removeAll(func(l *fixture, pod *corev1.Pod) error {
			began := time.Now()
			err := deletion(l, pod)
			*at[pod.Name] = time.Since(began)
			return err
		}, pods)
		for i, err := range errs {
			if !apierrors.IsTooManyRequests(err) {
				late++
			}
			lags = append(lags, took[i]-reviews.AnswerWithin(timeout))
		}
	}
	reportLatencies(b, lags)
	b.ReportMetric(float64(late), "late")
}

// useCPUs runs busy loops until stop is called.
func useCPUs(loops int) (stop func()) {
	stopped := &atomic.Bool{}
	for range loops {
		go func() {
			for !stopped.Load() {
			}
		}()
	}
	return func() { stopped.Store(true) }
}

// BenchmarkDenialOfASilentCore measures how long a client of a real API server waits for a refusal while a core is known not to answer.
func BenchmarkDenialOfASilentCore(b *testing.B) {
	l := newFixtureFor(b)
	l.protect("web", 5, 100)
	pod := l.pod("web-0")
	core := l.proxied()
	l.serve(core.asCore, func(s *replicaOptions) { s.probeInterval = 100 * time.Millisecond }).guard(withTimeout(10))
	core.stall()
	wantDenied(b, deletion(l, pod), unreachable) // when it is known
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		err := deletion(l, pod)
		took = append(took, time.Since(began))
		wantDenied(b, err, unreachable)
	}
	reportLatencies(b, took)
}

// reportLatencies sorts latencies, and reports some of them in milliseconds.
func reportLatencies(b *testing.B, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	for name, latency := range map[string]time.Duration{"p50-ms": all[len(all)/2], "p99-ms": all[len(all)*99/100], "max-ms": all[len(all)-1]} {
		b.ReportMetric(float64(latency.Microseconds())/1000, name)
	}
}
