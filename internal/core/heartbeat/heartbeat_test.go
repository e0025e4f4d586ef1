package heartbeat_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
)

// For any heartbeats, the state equals the one computed from a full record of all observations.
func TestState(t *testing.T) {
	type seen struct {
		value string
		at    time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		p, record := heartbeat.Tracker{}, map[string][]seen{}
		now := time.Unix(0, 0)
		limit := time.Duration(rapid.IntRange(1, 60).Draw(t, "limit")) * time.Second
		names := rapid.SampledFrom([]string{"a", "b"})
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second) },
			"observe": func(t *rapid.T) {
				name, value := names.Draw(t, "name"), fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
				p.Observe(name, value, now)
				record[name] = append(record[name], seen{value, now})
			},
			"forget": func(t *rapid.T) {
				name := names.Draw(t, "name")
				p.Forget(name)
				delete(record, name)
			},
			"": func(t *rapid.T) {
				for _, name := range []string{"a", "b"} {
					all := record[name]
					// The last one that differs from its predecessor is the last sign of life.
					sign, moved := 0, false
					for i := range all {
						if i > 0 && all[i].value != all[i-1].value {
							sign, moved = i, true
						}
					}
					want := heartbeat.Unknown
					switch {
					case len(all) == 0:
					case now.Sub(all[sign].at) >= limit:
						want = heartbeat.Silent
					case moved:
						want = heartbeat.Alive
					}
					if got := p.State(name, limit, now); got != want {
						t.Fatalf("State(%s) = %d, want %d, after %+v at %s", name, got, want, all, now)
					}
				}
			},
		})
	})
}
