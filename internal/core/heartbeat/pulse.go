// Package heartbeat tells by heartbeats who is alive. Heartbeats carry the times of other machines, which nobody can compare with
// their own: that one has changed is all that counts, and the silence since is timed on the observer's clock.
//
// It is pure: values and a time in, values out.
package heartbeat

import "time"

// State is what is known of somebody.
type State int

const (
	// Unknown means that no heartbeat was seen to change, and not for long enough to say that none will.
	Unknown State = iota
	// Alive means that a heartbeat was seen to change in time.
	Alive
	// Silent means that none was seen to change in time.
	Silent
)

// Pulses are those of several. The zero value has none.
type Pulses struct {
	last map[string]beat
}

type beat struct {
	value string
	// at is when the value was seen first, and moved tells that there was another one before.
	at    time.Time
	moved bool
}

// Observe takes in the newest heartbeat of somebody, whatever it looks like. Times must be of a clock that nobody sets.
func (p *Pulses) Observe(whose, value string, now time.Time) {
	if p.last == nil {
		p.last = map[string]beat{}
	}
	last, known := p.last[whose]
	if !known || last.value != value {
		p.last[whose] = beat{value: value, at: now, moved: known}
	}
}

// Forget drops what was known of somebody.
func (p *Pulses) Forget(whose string) { delete(p.last, whose) }

// State tells whether somebody was silent for as long as limit.
func (p *Pulses) State(whose string, limit time.Duration, now time.Time) State {
	last, known := p.last[whose]
	switch {
	case !known:
		return Unknown
	case now.Sub(last.at) >= limit:
		return Silent
	case last.moved:
		return Alive
	default:
		return Unknown
	}
}

// Since is when the newest heartbeat of somebody was seen first.
func (p *Pulses) Since(whose string) (at time.Time, known bool) {
	last, known := p.last[whose]
	return last.at, known
}
