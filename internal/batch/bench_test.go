package batch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

// BenchmarkDo measures the cost of a call without its execution: the executor does nothing.
func BenchmarkDo(b *testing.B) {
	for _, bc := range []struct{ callers, keys int }{{1, 1}, {64, 1}, {64, 64}} {
		for _, deadline := range []bool{false, true} {
			name := fmt.Sprintf("callers=%d/keys=%d/deadline=%v", bc.callers, bc.keys, deadline)
			b.Run(name, func(b *testing.B) { benchmarkDo(b, bc.callers, bc.keys, deadline) })
		}
	}
}

func benchmarkDo(b *testing.B, callers, keys int, deadline bool) {
	batches := make([]int, keys) // batches of one key never overlap
	batched := batch.New(func(_ context.Context, key int, inputs []int) ([]int, error) {
		batches[key]++
		return inputs, nil
	})
	ctx := context.Background()
	if deadline {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
	}
	b.ReportAllocs()
	b.ResetTimer()
	var calling sync.WaitGroup
	for caller := range callers {
		calls := b.N / callers
		if caller < b.N%callers {
			calls++
		}
		calling.Go(func() {
			for range calls {
				if _, err := batched.Do(ctx, caller%keys, caller); err != nil {
					b.Error(err)
				}
			}
		})
	}
	calling.Wait()
	b.StopTimer()
	batched.Wait()
	total := 0
	for _, n := range batches {
		total += n
	}
	b.ReportMetric(float64(b.N)/float64(total), "calls/flight")
}
