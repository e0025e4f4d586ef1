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

// eventPause is the minimum time between two events on one protector: a storm causes thousands of refusals.
const eventPause = 10 * time.Second

// rememberRefusals is how long an API server keeps events by default. Once an event has expired, the count of refusals
// since then is of no use.
const rememberRefusals = time.Hour

// refusals records events on protectors for the removals that were refused in their name.
type refusals struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]recent
	// swept is when old entries were last removed from last.
	swept time.Time
}

type recent struct {
	at time.Time
	// silent counts the refusals since the last event. told creates the event of the newest of them.
	silent int
	told   func(more int)
	// waits reports that flush will create their event when the pause ends, if none is created sooner.
	waits bool
}

// note creates an event of a refusal, unless there was one a moment ago, or the request is a dry run. Events of
// different pods stay different events: the recorder only counts an event that it considers the same, and loses its
// message.
func (r *refusals) note(core *core, cell string, request removal.Request, answer removal.Answer) {
	if request.DryRun {
		return
	}
	protector, pod := answer.Blames.Protector, referred(request.Pod)
	message, user, verdict := answer.Status.Message, request.User, string(answer.Verdict)
	r.tell(denial.ReasonRefused+" "+answer.Blames.String(), func(more int) {
		core.events.Eventf(protector, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}

// noteForced creates an event of a removal that was admitted although it would have been refused, with the same pause.
func (r *refusals) noteForced(core *core, c *removal.Charge, what string) {
	protector := c.Protector
	r.tell(denial.ReasonForced+" "+c.String(), func(more int) {
		core.events.Eventf(protector, nil, corev1.EventTypeWarning, denial.ReasonForced, "Admit", "%s", denial.ForcedNote(what, more))
	})
}

// tell creates an event now or, if there was one a moment ago, when the pause ends: for this refusal, if it is the last
// one by then.
func (r *refusals) tell(about string, told func(more int)) {
	if silent, due := r.due(about, told); due {
		told(silent)
	}
}

// referred returns the fields of a pod that an event refers to.
func referred(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}

func (r *refusals) due(about string, told func(more int)) (silent int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	last := r.last[about]
	if passed := now.Sub(last.at); !last.at.IsZero() && passed < eventPause {
		if !last.waits {
			time.AfterFunc(eventPause-passed, func() { r.flush(about) })
		}
		last.silent, last.told, last.waits = last.silent+1, told, true
		r.last[about] = last
		return 0, false
	}
	if r.last == nil {
		r.last = map[string]recent{}
	}
	r.last[about] = recent{at: now, waits: last.waits}
	return last.silent, true
}

// flush creates the event of the refusals since the last one, if any, so that the end of a storm is reported, too.
func (r *refusals) flush(about string) {
	r.mu.Lock()
	last, there := r.last[about]
	if there {
		r.last[about] = recent{at: last.at}
	}
	if last.silent > 0 {
		r.last[about] = recent{at: r.now()}
	}
	r.mu.Unlock()
	if last.silent > 0 {
		last.told(last.silent - 1)
	}
}

// sweep removes protectors that had no event for long: they may have been deleted. It scans all of them, but only once
// an hour, so that at most the protectors of two hours are kept.
func (r *refusals) sweep(now time.Time) {
	if now.Sub(r.swept) < rememberRefusals {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.last, func(_ string, last recent) bool { return now.Sub(last.at) >= rememberRefusals })
}
