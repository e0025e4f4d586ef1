// Package heartbeat determines from heartbeats which components are alive. A heartbeat carries the time of another machine, which
// cannot be compared with the local clock. Only a change of the value counts, and the observer times the silence since on its own
// clock.
//
// It is pure.
package heartbeat

import "time"

// State is the state of a component.
type State int

const (
	// Unknown means that no change of the heartbeat was seen, but not for long enough to call the component silent.
	Unknown State = iota
	// Alive means that a change of the heartbeat was seen within the limit.
	Alive
	// Silent means that no change was seen within the limit.
	Silent
)

// Tracker tracks the heartbeats of several components. The zero value tracks none.
type Tracker struct {
	last map[string]lastBeat
}

type lastBeat struct {
	// value is the newest one, and overtaken the one before it, which a late cache may show again.
	value, overtaken string
	// at is the time at which the value was first seen. changed reports whether another value was seen before it.
	at      time.Time
	changed bool
}

// Observe records the newest heartbeat of a component, in any format. The times passed to it must come from a monotonic clock.
func (p *Tracker) Observe(component, value string, now time.Time) {
	if p.last == nil {
		p.last = map[string]lastBeat{}
	}
	last, known := p.last[component]
	if !known || last.value != value && (!last.changed || last.overtaken != value) {
		p.last[component] = lastBeat{value: value, overtaken: last.value, at: now, changed: known}
	}
}

// Forget drops the record of a component.
func (p *Tracker) Forget(component string) { delete(p.last, component) }

// State returns the state of a component, which is silent if its heartbeat has not changed for limit.
func (p *Tracker) State(component string, limit time.Duration, now time.Time) State {
	last, known := p.last[component]
	switch {
	case !known:
		return Unknown
	case now.Sub(last.at) >= limit:
		return Silent
	case last.changed:
		return Alive
	default:
		return Unknown
	}
}

// Since returns the time at which the newest heartbeat of a component was first seen.
func (p *Tracker) Since(component string) (at time.Time, known bool) {
	last, known := p.last[component]
	return last.at, known
}
