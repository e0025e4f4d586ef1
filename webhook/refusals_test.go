package webhook

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

func TestEventsOfOneProtectorKeepTheirDistance(t *testing.T) {
	d := newDesk(t, deskProtector("full", 5, 5))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	d.refused.now = func() time.Time { return now }
	refuse := func(times int) {
		for range times {
			if answer := d.remove(t.Context(), deskPod("web-0")); answer.Allowed {
				t.Fatalf("answer %+v, want a refusal", answer)
			}
		}
	}
	wantEvent := func(claim, part string) {
		t.Helper()
		select {
		case event := <-d.events.Events:
			if part == "" || !strings.Contains(event, part) || !strings.HasPrefix(event, "Warning RemovalRefused Breakwater refuses") {
				t.Errorf("%s: event %q, want %q", claim, event, part)
			}
		default:
			if part != "" {
				t.Errorf("%s: no event, want %q", claim, part)
			}
		}
	}
	refuse(1)
	wantEvent("the first refusal", "(0 more were refused since the last event.)")
	refuse(1000)
	wantEvent("a storm", "")
	now = now.Add(eventPause - time.Nanosecond)
	refuse(1)
	wantEvent("just before the pause ends", "")
	now = now.Add(time.Nanosecond)
	refuse(1)
	wantEvent("after the pause", "(1001 more were refused since the last event.)")
	now = now.Add(eventPause)
	refuse(1)
	wantEvent("after another pause", "(0 more were refused since the last event.)")
}

func TestTheEndOfAStormIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusals{now: time.Now}
		var told []int
		refuse := func(times int) {
			for range times {
				r.tell("core/default/a", func(more int) { told = append(told, more) })
			}
		}
		want := func(claim string, counts ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, counts) {
				t.Errorf("%s: events with %v more, want %v", claim, told, counts)
			}
		}
		refuse(1)
		want("the first", 0)
		refuse(7)
		want("a storm", 0)
		<-time.After(eventPause - time.Nanosecond)
		want("just before the pause ends", 0)
		<-time.After(time.Nanosecond)
		want("after the pause", 0, 6)
		refuse(1)
		want("a moment later", 0, 6)
		<-time.After(eventPause)
		want("after another pause", 0, 6, 0)
		<-time.After(10 * eventPause)
		want("a calm", 0, 6, 0)
		refuse(1)
		want("the next storm", 0, 6, 0, 0)
	})
}

func TestProtectorsHaveTheirEventsApart(t *testing.T) {
	r := &refusals{now: time.Now}
	for _, protector := range []string{"core/default/a", "core/default/b"} {
		if _, due := r.due(protector, unheard); !due {
			t.Errorf("no event for %s because of another's", protector)
		}
		if _, due := r.due(protector, unheard); due {
			t.Errorf("two events at once for %s", protector)
		}
	}
}

func TestOnlyProtectorsOfTheLastTwoHoursAreRemembered(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &refusals{now: func() time.Time { return now }}
	most := 0
	for i := range 10_000 { // one per second, each for another protector
		now = now.Add(time.Second)
		if _, due := r.due(fmt.Sprint("core/default/", i), unheard); !due {
			t.Fatalf("no event for protector %d", i)
		}
		most = max(most, len(r.last))
	}
	if most > 2*int(rememberRefusals/time.Second) {
		t.Errorf("%d protectors were remembered at a time", most)
	}
	now = now.Add(rememberRefusals)
	if _, due := r.due("core/default/last", unheard); !due || len(r.last) != 1 {
		t.Errorf("event %v, and %d protectors are remembered after a silent hour", due, len(r.last))
	}
}

func TestARefusalIsRememberedForAnHour(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &refusals{now: func() time.Time { return now }}
	r.due("core/default/a", unheard) // triggers the sweep of this hour
	now = now.Add(rememberRefusals / 2)
	r.due("core/default/b", unheard)
	r.due("core/default/b", unheard)
	now = now.Add(rememberRefusals - time.Nanosecond)
	if silent, due := r.due("core/default/b", unheard); !due || silent != 1 {
		t.Errorf("event %v after %d refusals, want one after 1", due, silent)
	}
	if _, remembered := r.last["core/default/a"]; remembered {
		t.Error("an older refusal is still remembered")
	}
}

func TestAnEventTellsWhoAskedAndWhere(t *testing.T) {
	d := newDesk(t, deskProtector("full", 5, 5))
	pod := deskPod("web-0")
	request := removal.Request{Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: pod, User: "alice", DryRun: true}
	d.protect(t.Context(), deskCell, request)
	select {
	case event := <-d.events.Events:
		t.Fatalf("event %q of a dry run", event)
	default:
	}
	request.DryRun = false
	d.protect(t.Context(), deskCell, request)
	select {
	case event := <-d.events.Events:
		if want := fmt.Sprintf("Asked by %q in cell %q: NoBudget. (0 more were refused since the last event.)", "alice", deskCell); !strings.HasSuffix(event, want) {
			t.Errorf("event %q, want it to end with %q", event, want)
		}
	default:
		t.Error("no event")
	}
}

func TestARefusalThatIsNobodysFaultMakesNoEvent(t *testing.T) {
	d := newDesk(t)
	d.core.read.Store(false)
	d.remove(t.Context(), deskPod("web-0"))
	select {
	case event := <-d.events.Events:
		t.Errorf("event %q", event)
	default:
	}
}

// unheard is a callback that ignores the event.
func unheard(int) {}
