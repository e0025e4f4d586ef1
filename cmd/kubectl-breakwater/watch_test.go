package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

func TestWatchWritesALineForEachChange(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: to, ErrOut: io.Discard})
	root.SetArgs(append([]string{"watch"}, h.flags...))
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		_ = to.Close()
	}()
	lines := bufio.NewScanner(from)
	await := func(words string) {
		t.Helper()
		var heard []string
		for lines.Scan() {
			line := strings.Join(strings.Fields(lines.Text()), " ")
			if strings.Contains(line, words) {
				return
			}
			heard = append(heard, line)
		}
		t.Fatalf("no line says %q, only %q", words, heard)
	}
	guard := time.AfterFunc(time.Minute, cancel)
	defer guard.Stop()
	await(h.namespace + "/web available 9 floor 5 under way 0 budget 4 allowed 4 denied 0 ok")
	p := &v1alpha1.PodProtector{}
	h.must(h.Get(t.Context(), keyOf(h.namespace, "web"), p))
	withReservations(4)(p)
	h.must(h.Status().Update(t.Context(), p))
	await("available 9 floor 5 under way 4 budget 0 allowed 0 denied 0 at floor")
	h.createDenial("web", "web-9", "alice", 2, 0)
	await("denied 3 at floor")
	h.must(h.Delete(t.Context(), p))
	await(h.namespace + "/web was deleted")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWatchOfMissingProtector(t *testing.T) {
	h := newHub(t)
	_, _, err := runPlugin(t, "", append([]string{"watch", "web"}, h.flags...)...)
	wantErrors(t, err, []string{"PodProtector " + h.namespace + "/web does not exist"})
}

// newTestState returns a board with protectors with these budgets, and one denial event for each.
func newTestState(of scope, budgets ...int32) (*watchState, time.Time) {
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
	for _, of := range []scope{{}, {namespace: "shop"}, {"shop", "web-a"}} {
		b, now := newTestState(of, 5, -3, 0, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		for _, size := range [][2]int{{160, 50}, {80, 24}, {60, 10}, {20, 5}, {1, 1}} {
			lines := b.frame(size[0], size[1], now)
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines in %v", of, len(lines), size)
			}
			for _, line := range lines {
				if columnsOf(line) > size[0] {
					t.Errorf("%v: a line of %d in %v: %q", of, columnsOf(line), size, line)
				}
			}
		}
	}
}

func TestWatchSortsByBudget(t *testing.T) {
	b, now := newTestState(scope{namespace: "shop"}, 5, -3, 0, 12)
	text := withoutStyles(strings.Join(b.frame(100, 40, now), "\n"))
	at := func(word string) int { return strings.Index(text, word) }
	if at("web-b") < 0 || at("web-b") > at("web-c") || at("web-c") > at("web-a") || at("web-a") > at("web-d") {
		t.Errorf("not in the order of budgets:\n%s", text)
	}
	wantWords(t, text, "kubectl breakwater watch shop 12:00:00 q quits", "web-b 20 17 0 0 3 below floor", "60s ago 2+ NoBudget web-b worker-1")
}

func TestWatchReportsErrorsUntilResolved(t *testing.T) {
	b, now := newTestState(scope{namespace: "shop"}, 5)
	printed := map[string]string{}
	b.changes(printed, now)
	b.recordError("", "PodProtectors", io.ErrUnexpectedEOF)
	wantWords(t, strings.Join(b.changes(printed, now), "\n"), "cannot watch PodProtectors: unexpected EOF")
	wantWords(t, strings.Join(b.frame(80, 24, now), "\n"), "cannot watch PodProtectors: unexpected EOF", "web-a")
	b.record("", "PodProtectors", &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}, false)
	wantWords(t, strings.Join(b.changes(printed, now), "\n"), "resolved: cannot watch PodProtectors", "shop/new available 0 floor ?")
	if lines := b.changes(printed, now); len(lines) > 0 {
		t.Errorf("%q although nothing has changed", lines)
	}
}

func TestAvailabilityBar(t *testing.T) {
	b, now := newTestState(scope{"shop", "web-a"}, -10)
	v := b.view(now).protectors[0]
	if got := withoutStyles(availabilityBar(&v, 42)); got != "██████████··········|····················" {
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
