package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestASilentCoreRefusesInTimeWithTheWayOut(t *testing.T) {
	l := newLab(t)
	l.protect("web", 5, 7)
	pods := l.pods(2)
	core := l.throughProxy()
	r := l.serve(core.asCore).guard(impatient(5))
	core.stall()
	for _, err := range l.removeAll(deletion, pods) {
		// The API server's own timeout would not contain this message.
		wantRefused(t, err, "could not be reserved with PodProtector "+l.namespace+`/web in core cluster "core" (no answer in time)`,
			"try again, or in an emergency label the namespace "+v1alpha1.LabelExempt+"=true")
	}
	if left := l.left(); left != 2 {
		t.Errorf("%d pods are left, want 2", left)
	}
	r.waitInFlight(0)
	// The core is still silent, so that nothing may wait for it.
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestASilentCellRefusesEvictionsInTime(t *testing.T) {
	l := newLab(t)
	l.protect("web", 5, 7)
	pod := l.pod("web-0")
	cell := l.throughProxy()
	r := l.serve(cell.asCell).guard(impatient(3))
	cell.stall()
	wantRefused(t, eviction(l, pod), `cannot be read from cell "`+l.cell+`"`, v1alpha1.LabelExempt+"=true")
	// A deletion needs no read of the cell.
	if err := deletion(l, pod); err != nil {
		t.Errorf("deletion: %v", err)
	}
	r.waitInFlight(0)
}

// A reservation whose caller gave up may be stored anyway. It is given back, or else lasts until its deadline. An
// earlier reservation for an admitted removal must survive a lost repetition.
func TestALostRepetitionLeavesAnEarlierReservation(t *testing.T) {
	l := newLab(t)
	l.protect("web", 5, 7)
	pod := l.pod("web-0")
	core := l.throughProxy()
	r := l.serve(core.asCore)
	if response := r.ask(deleteReview(pod)); !response.Allowed {
		t.Fatalf("removal: %+v", response.Result)
	}
	core.stall()
	ctx, cancel := context.WithCancel(t.Context())
	raw, err := json.Marshal(deleteReview(pod))
	if err != nil {
		t.Fatal(err)
	}
	left := after(func() {
		if _, _, err := r.post(ctx, "/cells/"+l.cell+"/validate?timeout=10s", bytes.NewReader(raw)); err == nil {
			t.Error("a silent core answered")
		}
	})
	r.waitForFlight(1)
	cancel()
	l.wait(left, "the caller to leave")
	r.waitInFlight(0)
	core.heal()
	// stop waits until reservations have been given back.
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	l.wantReserved("web", 1)
}

func TestReviewsInFlightAreAnsweredAfterItIsToldToStop(t *testing.T) {
	l := newLab(t)
	l.protect("web", 30, 40)
	pods := l.pods(32)
	core := l.throughProxy()
	r := l.serve(core.asCore).guard()
	core.stall()
	var answers []error
	answered := after(func() { answers = l.removeAll(deletion, pods) })
	r.waitInFlight(32)
	stopped := after(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	l.eventually(func() string {
		if err := r.server.Ready(nil); err == nil || err.Error() != "draining" {
			return fmt.Sprintf("ready says %v, want that it is draining", err)
		}
		return ""
	})
	core.heal()
	l.wait(answered, "32 answers")
	l.wait(stopped, "the webhook to stop")
	if admitted := l.admitted(answers); admitted != 10 {
		t.Errorf("%d removals admitted, want 10", admitted)
	}
	l.wantReserved("web", 10)
}

func TestIsNotReadyBeforeItHasReadTheProtectors(t *testing.T) {
	l := newLab(t)
	core := l.throughProxy()
	r := l.start(core.asCore, func(s *setup) { s.beforeStart = core.stall })
	if err := r.server.Ready(&http.Request{}); err == nil {
		t.Error("ready without having read a protector")
	}
	core.heal()
	l.eventually(func() string {
		if err := r.server.Ready(&http.Request{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestAGraceBeforeTheEndGoesOnAnswering(t *testing.T) {
	l := newLab(t)
	l.protect("web", 0, 2)
	pod := l.pod("web-0")
	r := l.serve(func(s *setup) { s.server.Drain = 3 * time.Second })
	stopped := after(func() { _ = r.stop() })
	l.eventually(func() string {
		if err := r.server.Ready(nil); err == nil || !strings.Contains(err.Error(), "draining") {
			return fmt.Sprintf("ready says %v", err)
		}
		return ""
	})
	if least := r.server.StopTime(); least < r.server.Drain+30*time.Second {
		t.Errorf("a process that gives the server %v to stop cuts reviews off", least)
	}
	if response := r.ask(deleteReview(pod)); !response.Allowed {
		t.Errorf("removal during the grace: %+v", response.Result)
	}
	l.wait(stopped, "the webhook to stop")
}
