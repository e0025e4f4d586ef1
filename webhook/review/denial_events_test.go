package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestEventsOfOneProtectorAreRateLimited(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("full", 5, 5))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	d.denials.events.now = func() time.Time { return now }
	deny := func(times int) {
		for range times {
			if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Allowed {
				t.Fatalf("answer %+v, want a refusal", answer)
			}
		}
	}
	wantEvent := func(claim, part string) {
		t.Helper()
		select {
		case event := <-d.events.Events:
			if part == "" || !strings.HasSuffix(event, part) || !strings.HasPrefix(event, "Warning RemovalRefused Breakwater refuses") {
				t.Errorf("%s: event %q, want %q", claim, event, part)
			}
		default:
			if part != "" {
				t.Errorf("%s: no event, want %q", claim, part)
			}
		}
	}
	deny(1)
	wantEvent("the first refusal", ": NoBudget.")
	deny(1000)
	wantEvent("a storm", "")
	now = now.Add(minEventInterval - time.Nanosecond)
	deny(1)
	wantEvent("just before the pause ends", "")
	now = now.Add(time.Nanosecond)
	deny(1)
	wantEvent("after the pause", "(1001 more were refused since the last event.)")
	now = now.Add(minEventInterval)
	deny(1)
	wantEvent("after another pause", ": NoBudget.")
	deny(1)
	wantEvent("in the next pause", "")
	now = now.Add(minEventInterval)
	deny(1)
	wantEvent("after that", ": NoBudget. (1 more was refused since the last event.)")
}

func TestLastDenialOfStormIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newDenialEvents(time.Now)
		var told []int
		deny := func(times int) {
			for range times {
				r.emit("core/default/a", func(more int) { told = append(told, more) })
			}
		}
		want := func(claim string, counts ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, counts) {
				t.Errorf("%s: events with suppressed counts %v, want %v", claim, told, counts)
			}
		}
		deny(1)
		want("the first", 0)
		deny(7)
		want("a storm", 0)
		<-time.After(minEventInterval - time.Nanosecond)
		want("just before the pause ends", 0)
		<-time.After(time.Nanosecond)
		want("after the pause", 0, 6)
		deny(1)
		want("a moment later", 0, 6)
		<-time.After(minEventInterval)
		want("after another pause", 0, 6, 0)
		<-time.After(10 * minEventInterval)
		want("a calm", 0, 6, 0)
		deny(1)
		want("the next storm", 0, 6, 0, 0)
	})
}

func TestEventLimitIsPerProtector(t *testing.T) {
	r := newDenialEvents(time.Now)
	for _, protector := range []string{"core/default/a", "core/default/b"} {
		if _, due := r.due(protector, ignoreEvent); !due {
			t.Errorf("no event for %s after an event of another protector", protector)
		}
		if _, due := r.due(protector, ignoreEvent); due {
			t.Errorf("two events within the interval for %s", protector)
		}
	}
}

// Each of 100 protectors refuses three removals in one instant.
func TestEventsOfAllProtectorsAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const protectors, denials = 100, 3
		r := newDenialEvents(time.Now)
		began, events, reported := time.Now(), 0, map[string]int{}
		for i := range protectors * denials {
			about := fmt.Sprint("core/default/", i%protectors)
			r.emit(about, func(more int) {
				events++
				reported[about] += more + 1
				if limit := eventBurst + eventsPerSecond*time.Since(began).Seconds(); float64(events) > limit {
					t.Errorf("%d events after %s, want at most %.0f", events, time.Since(began), limit)
				}
			})
		}
		if events != eventBurst {
			t.Errorf("%d events at once, want %d", events, eventBurst)
		}
		<-time.After(minEventInterval + (protectors+eventBurst)/eventsPerSecond*time.Second)
		synctest.Wait()
		for i := range protectors {
			if about := fmt.Sprint("core/default/", i); reported[about] != denials {
				t.Errorf("events report %d refusals of %s, want %d", reported[about], about, denials)
			}
		}
		if r.flushScheduled {
			t.Error("a flush is scheduled although no refusal is suppressed")
		}
	})
}

func TestSuppressedDenialsOutliveTheSweep(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newDenialEvents(func() time.Time { return now })
	for i := range eventBurst + 1 {
		r.due(fmt.Sprint("core/default/", i), ignoreEvent)
	}
	now = now.Add(2 * eventRetention)
	r.due("core/default/other", ignoreEvent) // triggers a sweep
	if due := r.dueToFlush(); len(due) != 1 || due[0].suppressed != 1 {
		t.Errorf("%d protectors with suppressed refusals after the sweep, want the one over the limit", len(due))
	}
}

func TestEventRecordsExpire(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newDenialEvents(func() time.Time { return now })
	most := 0
	for i := range 10_000 { // one per second, each for another protector
		now = now.Add(time.Second)
		if _, due := r.due(fmt.Sprint("core/default/", i), ignoreEvent); !due {
			t.Fatalf("no event for protector %d", i)
		}
		most = max(most, len(r.recent))
	}
	if most > 2*int(eventRetention/time.Second) {
		t.Errorf("%d protectors recorded at a time", most)
	}
	now = now.Add(eventRetention)
	if _, due := r.due("core/default/last", ignoreEvent); !due || len(r.recent) != 1 {
		t.Errorf("event due %v, and %d protectors recorded after an hour without refusals", due, len(r.recent))
	}
}

func TestSuppressedDenialsExpireAfterAnHour(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newDenialEvents(func() time.Time { return now })
	r.due("core/default/a", ignoreEvent) // triggers the sweep of this hour
	now = now.Add(eventRetention / 2)
	r.due("core/default/b", ignoreEvent)
	r.due("core/default/b", ignoreEvent)
	now = now.Add(eventRetention - time.Nanosecond)
	if silent, due := r.due("core/default/b", ignoreEvent); !due || silent != 1 {
		t.Errorf("event %v after %d refusals, want one after 1", due, silent)
	}
	if _, remembered := r.recent["core/default/a"]; remembered {
		t.Error("an expired refusal is still recorded")
	}
}

func TestEventNamesUserAndCell(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("full", 5, 5))
	pod := memoryPod("web-0")
	request := removal.Request{Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod), User: "alice", DryRun: true}
	d.protect(t.Context(), memoryCell, request)
	select {
	case event := <-d.events.Events:
		t.Fatalf("event %q of a dry run", event)
	default:
	}
	request.DryRun = false
	d.protect(t.Context(), memoryCell, request)
	select {
	case event := <-d.events.Events:
		if want := fmt.Sprintf("Asked by %q in cell %q: NoBudget.", "alice", memoryCell); !strings.HasSuffix(event, want) {
			t.Errorf("event %q, want it to end with %q", event, want)
		}
	default:
		t.Error("no event")
	}
}

func TestDenialWithoutProtectorMakesNoEvent(t *testing.T) {
	d := newMemoryFixture(t)
	d.core.Synced.Store(false)
	d.remove(t.Context(), memoryPod("web-0"))
	select {
	case event := <-d.events.Events:
		t.Errorf("event %q", event)
	default:
	}
}

// ignoreEvent is a callback that ignores the event.
func ignoreEvent(int) {}
