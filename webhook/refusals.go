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

// eventPause is the least time between two events on one protector: in a storm, thousands are refused.
const eventPause = 10 * time.Second

// rememberRefusals is how long an apiserver keeps events unless told otherwise: what was refused since an event that
// nobody sees any more is no use to anybody.
const rememberRefusals = time.Hour

// refusals tells protectors of what was refused in their name, as events.
type refusals struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]recent
	// swept is when old ones were last removed from it.
	swept time.Time
}

type recent struct {
	at time.Time
	// silent counts what was refused since without an event, and told makes the event of the last of them.
	silent int
	told   func(more int)
	// waits tells that they will have one when the pause is over, if not sooner.
	waits bool
}

// note makes an event of a refusal, unless there was one a moment ago, or nothing was to be removed. Events of other pods are other
// events: what the recorder takes for the same one it only counts, and loses what it says.
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

// noteForced makes an event of a removal that would have been refused, likewise.
func (r *refusals) noteForced(core *core, c *removal.Charge, what string) {
	protector := c.Protector
	r.tell(denial.ReasonForced+" "+c.String(), func(more int) {
		core.events.Eventf(protector, nil, corev1.EventTypeWarning, denial.ReasonForced, "Admit", "%s", denial.ForcedNote(what, more))
	})
}

// tell makes an event, now or, if there was one a moment ago, when the pause is over: for this one, if it is the last until then.
func (r *refusals) tell(about string, told func(more int)) {
	if silent, due := r.due(about, told); due {
		told(silent)
	}
}

// referred is as much of a pod as an event refers to.
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

// flush makes the event of what was refused since the last one, if anything: a storm that ends must not end unheard.
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

// sweep forgets protectors that had no event for long: they may be gone for good. It looks at all of them, but only
// once in an hour, so that those of two hours are the most that are remembered.
func (r *refusals) sweep(now time.Time) {
	if now.Sub(r.swept) < rememberRefusals {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.last, func(_ string, last recent) bool { return now.Sub(last.at) >= rememberRefusals })
}
