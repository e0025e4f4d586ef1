package podhold_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func TestResume(t *testing.T) {
	held := func(at time.Duration) podhold.Entry {
		return podhold.Entry{Pod: running("a"), HeldSince: time.Unix(1, 0), HeldAt: at}
	}
	for claim, tc := range map[string]struct {
		stored     time.Duration
		pod        podhold.Entry
		want       time.Duration
		wantHeldAt time.Duration
	}{
		"continues from the stored time":                     {time.Hour, held(time.Minute), time.Hour, time.Minute},
		"was not stored since the pod was held":              {time.Minute, held(time.Hour), time.Hour, time.Hour},
		"was lost: the hold begins again":                    {0, held(time.Hour), time.Hour, time.Hour},
		"the pod was stored without it: the hold begins now": {time.Hour, held(0), time.Hour, time.Hour},
		"a pod that is not held":                             {time.Hour, podhold.Entry{Pod: running("a")}, time.Hour, 0},
	} {
		want := tc.pod
		want.HeldAt = tc.wantHeldAt
		if got, pods := podhold.Resume(tc.stored, []podhold.Entry{tc.pod}); got != tc.want || !cmp.Equal(pods, []podhold.Entry{want}) {
			t.Errorf("%s: Resume() = %s, %+v, want %s, %+v", claim, got, pods, tc.want, want)
		}
	}
}

// However often the guard restarts, and whatever it could not store, no pod is held for less than its retention.
func TestHoldsLastAtLeastTheirRetention(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(what string) time.Duration {
			return time.Duration(rapid.IntRange(0, 30).Draw(t, what)) * time.Minute
		}
		pod := running("a")
		var observed, heldAt, ran, stored time.Duration // observed is the time that guards have run, as an observer outside sees it
		pods := []podhold.Entry{{Pod: pod, HeldSince: time.Unix(1, 0)}}
		isHeld := false
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(*rapid.T) { d := duration("minutes"); observed, ran = observed+d, ran+d },
			"hold": func(*rapid.T) {
				if !isHeld {
					isHeld, heldAt, pods[0].HeldAt = true, observed, ran
				}
			},
			"store":   func(*rapid.T) { stored = ran },
			"lose":    func(*rapid.T) { stored = 0 },
			"restart": func(*rapid.T) { ran, pods = podhold.Resume(stored, pods) },
			"": func(t *rapid.T) {
				if got, limit := ran-pods[0].HeldAt, observed-heldAt; isHeld && (got > limit || got < 0) {
					t.Fatalf("the guard counts %s, want at most %s", got, limit)
				}
			},
		})
	})
}
