package webhook

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eventPause is the least time between two events on one protector: in a storm, thousands are refused.
const eventPause = 10 * time.Second

// refusals tells protectors of what was refused in their name, as events.
type refusals struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]recent
}

type recent struct {
	at time.Time
	// silent counts what was refused since without an event.
	silent int
}

// note makes an event of a refusal, unless there was one a moment ago.
func (r *refusals) note(charges []charge, answer Answer) {
	if answer.blames == nil {
		return
	}
	silent, due := r.due(answer.blames.String())
	if !due {
		return
	}
	for _, c := range charges {
		if c.String() == answer.blames.String() {
			c.core.events.Eventf(c.protector, nil, corev1.EventTypeWarning, "RemovalRefused", "Refuse",
				"%s (%d more were refused since the last event.)", answer.Status.Message, silent)
		}
	}
}

func (r *refusals) due(protector string) (silent int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, last := r.now(), r.last[protector]
	if !last.at.IsZero() && now.Sub(last.at) < eventPause {
		last.silent++
		r.last[protector] = last
		return 0, false
	}
	if r.last == nil {
		r.last = map[string]recent{}
	}
	r.last[protector] = recent{at: now}
	return last.silent, true
}
