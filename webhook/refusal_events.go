package webhook

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// minEventInterval is the minimum time between two events on one protector: a storm causes thousands of refusals.
const minEventInterval = 10 * time.Second

// eventRetention is how long an API server keeps events by default. Once an event has expired, the count of refusals
// since then is of no use.
const eventRetention = time.Hour

// refusalEvents records events on protectors for the removals that were refused in their name.
type refusalEvents struct {
	now func() time.Time

	mu     sync.Mutex
	recent map[string]recentEvent
	// swept is when old entries were last removed from recent.
	swept time.Time
}

type recentEvent struct {
	at time.Time
	// suppressed counts the refusals since the last event. emit creates the event of the newest of them.
	suppressed int
	emit       func(more int)
	// flushScheduled reports that flush will create their event when the pause ends, if none is created sooner.
	flushScheduled bool
}

// recordRefusal creates an event of a refusal, unless there was one a moment ago, or the request is a dry run. Events of
// different pods stay different events: the recorder only counts an event that it considers the same, and loses its
// message.
func (r *refusalEvents) recordRefusal(core *core, cell string, request removal.Request, answer removal.Answer) {
	if request.DryRun {
		return
	}
	protector, pod := answer.DeniedBy.Protector, podReference(request.Pod)
	message, user, verdict := answer.Status.Message, request.User, string(answer.Verdict)
	r.emit(denial.ReasonRefused+" "+answer.DeniedBy.String(), func(more int) {
		core.events.Eventf(protector, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}

// recordOverride creates an event of a removal that was admitted although it would have been refused, with the same pause.
func (r *refusalEvents) recordOverride(core *core, c *removal.Charge, message string) {
	protector := c.Protector
	r.emit(denial.ReasonForced+" "+c.String(), func(more int) {
		core.events.Eventf(protector, nil, corev1.EventTypeWarning, denial.ReasonForced, "Admit", "%s", denial.ForcedNote(message, more))
	})
}

// emit creates an event now or, if there was one a moment ago, when the pause ends: for this refusal, if it is the last
// one by then.
func (r *refusalEvents) emit(about string, emitNow func(more int)) {
	if suppressed, due := r.due(about, emitNow); due {
		emitNow(suppressed)
	}
}

// podReference returns the fields of a pod that an event refers to.
func podReference(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}

func (r *refusalEvents) due(about string, emit func(more int)) (suppressed int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	last := r.recent[about]
	if passed := now.Sub(last.at); !last.at.IsZero() && passed < minEventInterval {
		if !last.flushScheduled {
			time.AfterFunc(minEventInterval-passed, func() { r.flush(about) })
		}
		last.suppressed, last.emit, last.flushScheduled = last.suppressed+1, emit, true
		r.recent[about] = last
		return 0, false
	}
	if r.recent == nil {
		r.recent = map[string]recentEvent{}
	}
	r.recent[about] = recentEvent{at: now, flushScheduled: last.flushScheduled}
	return last.suppressed, true
}

// flush creates the event of the refusals since the last one, if any, so that the end of a storm is reported, too.
func (r *refusalEvents) flush(about string) {
	r.mu.Lock()
	last, found := r.recent[about]
	if found {
		r.recent[about] = recentEvent{at: last.at}
	}
	if last.suppressed > 0 {
		r.recent[about] = recentEvent{at: r.now()}
	}
	r.mu.Unlock()
	if last.suppressed > 0 {
		last.emit(last.suppressed - 1)
	}
}

// sweep removes protectors that had no event for long: they may have been deleted. It scans all of them, but only once
// an hour, so that at most the protectors of two hours are kept.
func (r *refusalEvents) sweep(now time.Time) {
	if now.Sub(r.swept) < eventRetention {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.recent, func(_ string, last recentEvent) bool { return now.Sub(last.at) >= eventRetention })
}
