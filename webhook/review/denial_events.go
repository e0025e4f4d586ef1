package review

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// minEventInterval is the minimum time between two events on one protector: a storm causes thousands of denials.
const minEventInterval = 10 * time.Second

// eventRetention is how long an API server keeps events by default. Once an event has expired, the count of denials
// since then is of no use.
const eventRetention = time.Hour

const (
	// eventsPerSecond and eventBurst limit the events of a replica on all protectors together: each event is a write to the core,
	// which in a storm over many protectors also has to store the reservations.
	eventsPerSecond = 5
	eventBurst      = 10
	// eventFlushInterval is how often suppressed denials are checked for events that may be created by then.
	eventFlushInterval = 2 * time.Second
)

// denialEvents records events on protectors for the removals that were denied in their name.
type denialEvents struct {
	now     func() time.Time
	limiter *rate.Limiter

	mu     sync.Mutex
	recent map[string]recentEvent
	// swept is when old entries were last removed from recent.
	swept time.Time
	// flushScheduled reports that flush will run. It is true while any denial is suppressed.
	flushScheduled bool
}

func newDenialEvents(now func() time.Time) *denialEvents {
	return &denialEvents{now: now, limiter: rate.NewLimiter(eventsPerSecond, eventBurst), recent: map[string]recentEvent{}}
}

type recentEvent struct {
	// at is when the last event was created; zero if there was none.
	at time.Time
	// suppressed counts the denials since the last event. emit creates the event of the newest of them.
	suppressed int
	emit       func(more int)
}

// recordDenial creates an event of a denial, now or later, unless the request is a dry run. Events of
// different pods stay different events: the recorder only counts an event that it considers the same, and loses its
// message.
func (r *denialEvents) recordDenial(core *reserve.Core, cell string, request removal.Request, answer removal.Answer) {
	if request.DryRun {
		return
	}
	by, pod := answer.DeniedBy, podReference(request.Pod.Pod)
	message, user, verdict := answer.Status.Message, request.User, string(answer.Verdict)
	r.emit(denial.ReasonRefused+" "+by.String(), func(more int) {
		core.Events.Eventf(by.Protector, pod, corev1.EventTypeWarning, denial.ReasonRefused, "Refuse", "%s", denial.Note(message, user, cell, verdict, more))
	})
}

// recordOverride creates an event of a removal that was admitted although it would have been denied, with the same limits.
func (r *denialEvents) recordOverride(core *reserve.Core, c *removal.Charge, message string) {
	protector := c.Protector
	r.emit(denial.ReasonForced+" "+c.String(), func(more int) {
		core.Events.Eventf(protector, nil, corev1.EventTypeWarning, denial.ReasonForced, "Admit", "%s", denial.ForcedNote(message, more))
	})
}

// emit creates an event now or, if there was one a moment ago or are too many, later: for this denial, if it is the last one by then.
func (r *denialEvents) emit(about string, emitNow func(more int)) {
	if suppressed, due := r.due(about, emitNow); due {
		emitNow(suppressed)
	}
}

// podReference returns the fields of a pod that an event refers to.
func podReference(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
}

func (r *denialEvents) due(about string, emit func(more int)) (suppressed int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	last := r.recent[about]
	if last.isInPause(now) || !r.limiter.AllowN(now, 1) {
		last.suppressed, last.emit = last.suppressed+1, emit
		r.recent[about] = last
		r.scheduleFlush()
		return 0, false
	}
	r.recent[about] = recentEvent{at: now}
	return last.suppressed, true
}

func (e *recentEvent) isInPause(now time.Time) bool {
	return !e.at.IsZero() && now.Sub(e.at) < minEventInterval
}

// scheduleFlush schedules flush, unless it is scheduled. The caller holds the lock.
func (r *denialEvents) scheduleFlush() {
	if !r.flushScheduled {
		r.flushScheduled = true
		time.AfterFunc(eventFlushInterval, r.flush)
	}
}

// flush creates the events of suppressed denials that are due, so that the end of a storm is reported, too.
func (r *denialEvents) flush() {
	for _, e := range r.dueToFlush() {
		e.emit(e.suppressed - 1)
	}
}

// dueToFlush returns the suppressed denials whose events may be created now, and removes them. Protectors whose last event is the
// oldest come first.
func (r *denialEvents) dueToFlush() (due []recentEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushScheduled = false
	now := r.now()
	var waiting []string
	for about, last := range r.recent {
		if last.suppressed > 0 {
			waiting = append(waiting, about)
		}
	}
	slices.SortFunc(waiting, func(a, b string) int { return cmp.Or(r.recent[a].at.Compare(r.recent[b].at), cmp.Compare(a, b)) })
	for _, about := range waiting {
		last := r.recent[about]
		if last.isInPause(now) || !r.limiter.AllowN(now, 1) {
			r.scheduleFlush()
			break
		}
		due = append(due, last)
		r.recent[about] = recentEvent{at: now}
	}
	return due
}

// sweep removes protectors that had no event for long: they may have been deleted. It scans all of them, but only once
// an hour, so that at most the protectors of two hours are kept. It keeps denials without an event, which flush reports.
func (r *denialEvents) sweep(now time.Time) {
	if now.Sub(r.swept) < eventRetention {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.recent, func(_ string, last recentEvent) bool {
		return last.suppressed == 0 && now.Sub(last.at) >= eventRetention
	})
}
