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
					// The last one that differs from the newest is the last sign of life, unless the newest has replaced the same value: a late cache shows it.
					sign, overtaken, moved := 0, "", false
					for i := 1; i < len(all); i++ {
						if newest := all[sign].value; all[i].value != newest && (!moved || all[i].value != overtaken) {
							sign, overtaken, moved = i, newest, true
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

// Live reads show a later heartbeat than a cache that is stuck. The component has stopped since.
func TestLateCacheShowsNoSignOfLife(t *testing.T) {
	p, began, limit := heartbeat.Tracker{}, time.Unix(0, 0), time.Minute
	for second := range 121 {
		now := began.Add(time.Duration(second) * time.Second)
		p.Observe("a", "cached", now)
		if second >= 1 {
			p.Observe("a", "live", now)
		}
	}
	if got := p.State("a", limit, began.Add(2*time.Minute)); got != heartbeat.Silent {
		t.Errorf("State() = %d, want %d", got, heartbeat.Silent)
	}
}
