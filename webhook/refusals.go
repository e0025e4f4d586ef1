package webhook

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/denial"
	"github.com/breakwater-k8s/breakwater/internal/removal"
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
	// silent counts what was refused since without an event.
	silent int
}

// note makes an event of a refusal, unless there was one a moment ago, or nothing was to be removed. Events of other pods are other
// events: what the recorder takes for the same one it only counts, and loses what it says.
func (r *refusals) note(core *core, cell string, request removal.Request, answer removal.Answer) {
	silent, due := 0, false
	if !request.DryRun {
		silent, due = r.due(denial.ReasonRefused + " " + answer.Blames.String())
	}
	if due {
		note := denial.Note(answer.Status.Message, request.User, cell, string(answer.Verdict), silent)
		core.events.Eventf(answer.Blames.Protector, referred(request.Pod), corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", note)
	}
}

// noteForced makes an event of a removal that would have been refused, likewise.
func (r *refusals) noteForced(core *core, c *removal.Charge, what string) {
	if silent, due := r.due(denial.ReasonForced + " " + c.String()); due {
		core.events.Eventf(c.Protector, nil, corev1.EventTypeWarning, denial.ReasonForced, "Admit", "%s", denial.ForcedNote(what, silent))
	}
}

// referred is as much of a pod as an event refers to.
func referred(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}

func (r *refusals) due(protector string) (silent int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	last := r.last[protector]
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

// sweep forgets protectors that had no event for long: they may be gone for good. It looks at all of them, but only
// once in an hour, so that those of two hours are the most that are remembered.
func (r *refusals) sweep(now time.Time) {
	if now.Sub(r.swept) < rememberRefusals {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.last, func(_ string, last recent) bool { return now.Sub(last.at) >= rememberRefusals })
}
