package status

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// newTestState returns a board with protectors with these budgets, and one denial event for each.
func newTestState(of plugin.Scope, budgets ...int32) (*watchState, time.Time) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	b := newWatchState(of, false)
	beat := metav1.NewMicroTime(now)
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	cell.Status.Aggregator.LastHeartbeat = &beat
	b.record("", "Cells", cell, false)
	for i, budget := range budgets {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + string(rune('a'+i))}}
		p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(20)
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-1", Aggregation: v1alpha1.Aggregation{CountedReplicas: 20 + budget, TotalReplicas: 40, CountedSpec: quota.CountedSpec(&p.Spec)}}}
		b.record("", "PodProtectors", p, false)
		e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Reason: denial.ReasonRefused, EventTime: metav1.NewMicroTime(now.Add(-time.Minute)), Note: denial.Note("told", "alice", "worker-1", "NoBudget", i)}
		e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name = "PodProtector", "shop", p.Name
		b.record("", "events", e, false)
	}
	return b, now
}

func TestFramesFitTheTerminal(t *testing.T) {
	for _, of := range []plugin.Scope{{}, {Namespace: "shop"}, {Namespace: "shop", Name: "web-a"}} {
		b, now := newTestState(of, 5, -3, 0, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		for _, size := range [][2]int{{160, 50}, {80, 24}, {60, 10}, {20, 5}, {1, 1}} {
			lines := b.frame(size[0], size[1], now)
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines in %v", of, len(lines), size)
			}
			for _, line := range lines {
				if plugin.ColumnsOf(line) > size[0] {
					t.Errorf("%v: a line of %d in %v: %q", of, plugin.ColumnsOf(line), size, line)
				}
			}
		}
	}
}

func TestWatchSortsByBudget(t *testing.T) {
	b, now := newTestState(plugin.Scope{Namespace: "shop"}, 5, -3, 0, 12)
	text := plugin.WithoutStyles(strings.Join(b.frame(100, 40, now), "\n"))
	at := func(word string) int { return strings.Index(text, word) }
	if at("web-b") < 0 || at("web-b") > at("web-c") || at("web-c") > at("web-a") || at("web-a") > at("web-d") {
		t.Errorf("not in the order of budgets:\n%s", text)
	}
	wantText(t, text, "kubectl breakwater watch shop 12:00:00 q quits", "web-b 20 17 0 0 3 below floor", "60s ago 2+ NoBudget web-b worker-1")
}

func TestWatchReportsErrorsUntilResolved(t *testing.T) {
	b, now := newTestState(plugin.Scope{Namespace: "shop"}, 5)
	printed := map[string]string{}
	b.changes(printed, now)
	b.recordError("", "PodProtectors", io.ErrUnexpectedEOF)
	wantText(t, strings.Join(b.changes(printed, now), "\n"), "cannot watch PodProtectors: unexpected EOF")
	wantText(t, strings.Join(b.frame(80, 24, now), "\n"), "cannot watch PodProtectors: unexpected EOF", "web-a")
	b.record("", "PodProtectors", &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}, false)
	wantText(t, strings.Join(b.changes(printed, now), "\n"), "resolved: cannot watch PodProtectors", "shop/new available 0 floor ?")
	if lines := b.changes(printed, now); len(lines) > 0 {
		t.Errorf("%q although nothing has changed", lines)
	}
}

func TestAvailabilityBar(t *testing.T) {
	b, now := newTestState(plugin.Scope{Namespace: "shop", Name: "web-a"}, -10)
	v := b.view(now).protectors[0]
	if got := plugin.WithoutStyles(availabilityBar(&v, 42)); got != "██████████··········|····················" {
		t.Errorf("%q", got)
	}
}

func TestWatchIntervalGrowsWithWork(t *testing.T) {
	for _, c := range []struct{ took, want time.Duration }{{time.Millisecond, frameInterval}, {50 * time.Millisecond, 950 * time.Millisecond}} {
		if got := interval(frameInterval, c.took); got != c.want {
			t.Errorf("after %v of work it waits %v, want %v", c.took, got, c.want)
		}
	}
}

func TestKeysThatQuit(t *testing.T) {
	for _, keys := range []string{"q", "abcQ", "\x03", "\x04", ""} {
		rest := strings.NewReader(keys)
		waitForQuit(rest) // must return
	}
	unread, keys := io.Pipe()
	done := make(chan struct{})
	go func() { waitForQuit(unread); close(done) }()
	_, _ = keys.Write([]byte("abc"))
	select {
	case <-done:
		t.Error("any key quits")
	default:
	}
	_, _ = keys.Write([]byte("q"))
	<-done
}

// wantText checks that a text contains words, whatever the spaces between them.
func wantText(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), word) {
			t.Errorf("output does not contain %q:\n%s", word, text)
		}
	}
}

// hostileText contains characters that would clear the screen, add a line, hide text, and reverse the text direction.
const hostileText = "eve\x1b[2J\x1b[8m\x1b]0;t\a\nshop  allowed\r\u009b1A\u202e\u2066\u200b\u2028\u3164\U000e0041"

func TestAWatchShowsHostileEventsAsText(t *testing.T) {
	for _, of := range []plugin.Scope{{}, {Namespace: "shop", Name: "web-a"}} {
		b, now := newTestState(of, 5)
		b.record("", "events", &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hostile"}, EventTime: metav1.NewMicroTime(now), Reason: denial.ReasonRefused,
			Note:      denial.Note("Breakwater refuses to remove pod "+`"web-1"`+hostileText, hostileText, "worker-1", "NoBudget", 0),
			Regarding: corev1.ObjectReference{Kind: "PodProtector", Namespace: "shop", Name: "web-a"},
		}, false)
		b.recordError("", "Cells", &json.UnsupportedValueError{Str: hostileText})
		frame := b.frame(300, 60, now)
		for _, line := range append(frame, b.changes(map[string]string{}, now)...) {
			if bad := strings.IndexFunc(plugin.WithoutStyles(line), func(r rune) bool { return !printable.IsShown(r) }); bad >= 0 {
				t.Errorf("line contains an unprintable character: %q", line)
			}
		}
		wantText(t, strings.Join(frame, "\n"), `eve\u001b[2J`)
	}
}
