package batch_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

// scriptedCall is one call of Do in a script: its arrival, and the time at which it leaves unless it is answered before.
type scriptedCall struct {
	key             string
	arrives, leaves time.Duration

	out      int
	err      error
	returned time.Duration
}

// recordedBatch is one run of the executor, recorded by itself.
type recordedBatch struct {
	key        string
	inputs     []int
	start, end time.Duration
	abandoned  bool
}

// TestRandomScriptsOfCalls plays random scripts of calls in virtual time and checks the recorded runs and answers.
func TestRandomScriptsOfCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := func(from, to int) *rapid.Generator[time.Duration] {
			return rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(from, to).Draw(t, "ms")) * time.Millisecond
			})
		}
		script := make([]scriptedCall, rapid.IntRange(1, 40).Draw(rt, "visits"))
		var now time.Duration
		for i := range script {
			// Distinct arrival times fix the order that must be preserved.
			now += ms(1, 10).Draw(rt, "pause")
			script[i] = scriptedCall{key: rapid.SampledFrom([]string{"web", "api"}).Draw(rt, "key"), arrives: now}
			// A unique number of microseconds separates each leaving from all other events.
			script[i].leaves = now + ms(0, 60).Draw(rt, "stay") + time.Duration(i+1)*time.Microsecond
		}
		lengths := rapid.SliceOfN(ms(0, 30), 1, 10).Draw(rt, "durations of batches")

		var runs []recordedBatch
		synctest.Test(t, func(*testing.T) { runs = runScript(script, lengths) })
		for _, key := range []string{"web", "api"} {
			checkRuns(rt, key, script, runs)
		}
		for i := range script {
			checkCall(rt, i, &script[i], runs)
		}
	})
}

// runScript runs the script and writes the answers into the visits.
func runScript(script []scriptedCall, lengths []time.Duration) []recordedBatch {
	var (
		mu   sync.Mutex
		runs []recordedBatch
	)
	opened := time.Now()
	b := batch.New(func(ctx context.Context, key string, inputs []int) ([]int, error) {
		mu.Lock()
		at := len(runs)
		runs = append(runs, recordedBatch{key: key, inputs: slices.Clone(inputs), start: time.Since(opened)})
		mu.Unlock()
		select {
		case <-time.After(lengths[at%len(lengths)]):
		case <-ctx.Done():
		}
		mu.Lock()
		defer mu.Unlock()
		runs[at].end, runs[at].abandoned = time.Since(opened), ctx.Err() != nil
		outputs, _ := timesTen(inputs)
		return outputs, ctx.Err()
	})
	var calls sync.WaitGroup
	for i := range script {
		v := &script[i]
		calls.Go(func() {
			time.Sleep(v.arrives)
			ctx, cancel := context.WithTimeout(context.Background(), v.leaves-v.arrives)
			defer cancel()
			v.out, v.err = b.Do(ctx, v.key, i)
			v.returned = time.Since(opened)
		})
	}
	calls.Wait()
	b.Wait()
	return runs
}

// checkRuns checks the batches of one key: they do not overlap, none waits without need, and inputs keep their order and are never
// executed twice.
func checkRuns(t *rapid.T, key string, script []scriptedCall, runs []recordedBatch) {
	var last time.Duration
	input := -1
	for _, r := range runs {
		if r.key != key {
			continue
		}
		if r.start < last {
			t.Fatalf("batch %+v started before the previous one ended at %v", r, last)
		}
		if len(r.inputs) == 0 {
			t.Fatalf("batch %+v has no inputs", r)
		}
		if want := max(last, script[r.inputs[0]].arrives); r.start != want {
			t.Fatalf("batch %+v: want start %v", r, want)
		}
		for _, in := range r.inputs {
			if script[in].key != key || in <= input {
				t.Fatalf("batch %+v executed input %d of key %s after input %d", r, in, script[in].key, input)
			}
			input = in
		}
		last = r.end
		lastLeaves := slices.MaxFunc(r.inputs, func(a, b int) int { return cmp.Compare(script[a].leaves, script[b].leaves) })
		if r.abandoned != (script[lastLeaves].leaves == r.end) {
			t.Fatalf("batch %+v: want an end when its last caller leaves, at %v", r, script[lastLeaves].leaves)
		}
	}
}

// checkCall checks one caller: its input was executed unless it left before, and it got its answer or left in time.
func checkCall(t *rapid.T, i int, v *scriptedCall, runs []recordedBatch) {
	what := fmt.Sprintf("call %d %+v", i, *v)
	for _, r := range runs {
		if !slices.Contains(r.inputs, i) {
			if r.key == v.key && v.arrives < r.start && r.start < v.leaves && !executedBefore(runs, i, r.start) {
				t.Fatalf("%s: batch %+v started without it", what, r)
			}
			continue
		}
		if r.start < v.arrives || r.start > v.leaves {
			t.Fatalf("%s was executed by batch %+v, want it skipped", what, r)
		}
		if r.end < v.leaves {
			if v.err != nil || v.out != 10*i || v.returned != r.end {
				t.Fatalf("%s: canceled although its batch %+v completed before", what, r)
			}
			return
		}
	}
	if v.err == nil || v.returned != v.leaves {
		t.Fatalf("%s: want a canceled call", what)
	}
}

func executedBefore(runs []recordedBatch, i int, start time.Duration) bool {
	return slices.ContainsFunc(runs, func(r recordedBatch) bool { return r.start < start && slices.Contains(r.inputs, i) })
}
