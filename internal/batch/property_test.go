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

// visit is one call of Do in a script: its arrival, and the time at which it leaves unless it is answered before.
type visit struct {
	key             string
	arrives, leaves time.Duration

	out      int
	err      error
	answered time.Duration
}

// run is one run of the executor, recorded by itself.
type run struct {
	key        string
	inputs     []int
	start, end time.Duration
	abandoned  bool
}

// TestScript plays random scripts of calls in virtual time and checks the recorded runs and answers.
func TestScript(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := func(from, to int) *rapid.Generator[time.Duration] {
			return rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(from, to).Draw(t, "ms")) * time.Millisecond
			})
		}
		visits := make([]visit, rapid.IntRange(1, 40).Draw(rt, "visits"))
		var now time.Duration
		for i := range visits {
			// Distinct arrival times fix the order that must be preserved.
			now += ms(1, 10).Draw(rt, "pause")
			visits[i] = visit{key: rapid.SampledFrom([]string{"web", "api"}).Draw(rt, "key"), arrives: now}
			// A unique number of microseconds separates each leaving from all other events.
			visits[i].leaves = now + ms(0, 60).Draw(rt, "stay") + time.Duration(i+1)*time.Microsecond
		}
		lengths := rapid.SliceOfN(ms(0, 30), 1, 10).Draw(rt, "lengths of flights")

		var runs []run
		synctest.Test(t, func(*testing.T) { runs = play(visits, lengths) })
		for _, key := range []string{"web", "api"} {
			checkRuns(rt, key, visits, runs)
		}
		for i := range visits {
			checkVisit(rt, i, &visits[i], runs)
		}
	})
}

// play runs the script and writes the answers into the visits.
func play(visits []visit, lengths []time.Duration) []run {
	var (
		mu   sync.Mutex
		runs []run
	)
	opened := time.Now()
	b := batch.New(func(ctx context.Context, key string, inputs []int) ([]int, error) {
		mu.Lock()
		at := len(runs)
		runs = append(runs, run{key: key, inputs: slices.Clone(inputs), start: time.Since(opened)})
		mu.Unlock()
		select {
		case <-time.After(lengths[at%len(lengths)]):
		case <-ctx.Done():
		}
		mu.Lock()
		defer mu.Unlock()
		runs[at].end, runs[at].abandoned = time.Since(opened), ctx.Err() != nil
		outputs, _ := tenfold(inputs)
		return outputs, ctx.Err()
	})
	var calls sync.WaitGroup
	for i := range visits {
		v := &visits[i]
		calls.Go(func() {
			time.Sleep(v.arrives)
			ctx, cancel := context.WithTimeout(context.Background(), v.leaves-v.arrives)
			defer cancel()
			v.out, v.err = b.Do(ctx, v.key, i)
			v.answered = time.Since(opened)
		})
	}
	calls.Wait()
	b.Wait()
	return runs
}

// checkRuns checks the batches of one key: they do not overlap, none waits without need, and inputs keep their order and are never
// executed twice.
func checkRuns(t *rapid.T, key string, visits []visit, runs []run) {
	var last time.Duration
	input := -1
	for _, r := range runs {
		if r.key != key {
			continue
		}
		if r.start < last {
			t.Fatalf("flight %+v starts before the one before it ended at %v", r, last)
		}
		if len(r.inputs) == 0 {
			t.Fatalf("flight %+v carries nobody", r)
		}
		if want := max(last, visits[r.inputs[0]].arrives); r.start != want {
			t.Fatalf("flight %+v should have started at %v", r, want)
		}
		for _, in := range r.inputs {
			if visits[in].key != key || in <= input {
				t.Fatalf("flight %+v carries %d of %s, after %d", r, in, visits[in].key, input)
			}
			input = in
		}
		last = r.end
		lastLeaves := slices.MaxFunc(r.inputs, func(a, b int) int { return cmp.Compare(visits[a].leaves, visits[b].leaves) })
		if r.abandoned != (visits[lastLeaves].leaves == r.end) {
			t.Fatalf("flight %+v: its last caller leaves at %v", r, visits[lastLeaves].leaves)
		}
	}
}

// checkVisit checks one caller: its input was executed unless it left before, and it got its answer or left in time.
func checkVisit(t *rapid.T, i int, v *visit, runs []run) {
	what := fmt.Sprintf("visit %d %+v", i, *v)
	for _, r := range runs {
		if !slices.Contains(r.inputs, i) {
			if r.key == v.key && v.arrives < r.start && r.start < v.leaves && !executedBefore(runs, i, r.start) {
				t.Fatalf("%s: flight %+v started without it", what, r)
			}
			continue
		}
		if r.start < v.arrives || r.start > v.leaves {
			t.Fatalf("%s was executed by %+v", what, r)
		}
		if r.end < v.leaves {
			if v.err != nil || v.out != 10*i || v.answered != r.end {
				t.Fatalf("%s: its flight %+v landed before it left", what, r)
			}
			return
		}
	}
	if v.err == nil || v.answered != v.leaves {
		t.Fatalf("%s should have left", what)
	}
}

func executedBefore(runs []run, i int, start time.Duration) bool {
	return slices.ContainsFunc(runs, func(r run) bool { return r.start < start && slices.Contains(r.inputs, i) })
}
