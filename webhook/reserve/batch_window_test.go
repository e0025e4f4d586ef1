package reserve

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

func TestBatchWindow(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	for claim, c := range map[string]struct {
		depth      int
		took       time.Duration
		contention bool
		far        bool
		want       time.Duration
		wantEnough int
		over       bool // the batch that met the conflict
	}{
		"few clients never wait":                   {depth: stormQueueDepth - 1, took: time.Second},
		"a small storm waits for all":              {depth: 4, took: 10 * time.Millisecond, want: 50 * time.Millisecond, wantEnough: 4},
		"a storm does not wait for the last":       {depth: 64, took: 10 * time.Millisecond, want: 50 * time.Millisecond, wantEnough: 56},
		"a slow core limits the window":            {depth: 64, took: time.Second, want: maxBatchWindow, wantEnough: 56},
		"a far core gets one half at a time":       {depth: 64, took: 55 * time.Millisecond, far: true, want: maxBatchWindow, wantEnough: 32},
		"contention uses the whole window":         {depth: 64, took: 10 * time.Millisecond, contention: true, want: 50 * time.Millisecond, wantEnough: math.MaxInt},
		"few clients do not wait in contention":    {depth: 1, took: 10 * time.Millisecond, contention: true},
		"contention before the last batch is over": {depth: 64, took: 10 * time.Millisecond, contention: true, over: true, want: 50 * time.Millisecond, wantEnough: 56},
	} {
		t.Run(claim, func(t *testing.T) {
			now := time.Now()
			r := &reserver{conflicts: &conflictLog{now: func() time.Time { return now }}, distance: &coreDistance{}, escrows: newEscrows(nil)}
			if c.far {
				r.distance.record(c.took, now)
			}
			if c.contention {
				r.conflicts.record(key)
			}
			if c.over {
				now = now.Add(c.took + 1)
			}
			if window, enough := r.batchWindow(key, c.depth, c.took); window != c.want || enough != c.wantEnough {
				t.Errorf("batchWindow() = %s, %d, want %s, %d", window, enough, c.want, c.wantEnough)
			}
		})
	}
}

// Of 16 clients, 15 come back 10 ms after each write. The slow one needs a minute.
func TestStormDoesNotWaitForSlowestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, took, think = 16, 20 * time.Millisecond, 10 * time.Millisecond
		r := &reserver{conflicts: &conflictLog{now: time.Now}, distance: &coreDistance{}, escrows: newEscrows(nil)}
		began := time.Now()
		var starts []time.Duration
		b := batch.New(func(_ context.Context, _ types.NamespacedName, in []int) ([]int, error) {
			starts = append(starts, time.Since(began))
			<-time.After(took)
			return in, nil
		})
		b.Window = r.batchWindow
		for client := range clients {
			go func() {
				if client != 1 {
					<-time.After(time.Millisecond) // so that one client alone causes the first write
				}
				for range 4 {
					if _, err := b.Do(t.Context(), types.NamespacedName{Name: "web"}, client); err != nil {
						t.Error(err)
					}
					pause := think
					if client == 0 {
						pause = time.Minute
					}
					<-time.After(pause)
				}
			}()
		}
		<-time.After(3 * (took + think))
		synctest.Wait()
		if want := []time.Duration{0, took, 2*took + think, 3*took + 2*think}; !slices.Equal(starts[:min(len(starts), 4)], want) {
			t.Errorf("batches started at %v, want %v", starts, want)
		}
		<-time.After(5 * time.Minute)
		b.Wait()
	})
}
