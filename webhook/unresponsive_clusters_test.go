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

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestUnresponsiveCoreDeniesInTime(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 7)
	pods := l.pods(2)
	core := l.proxied()
	r := l.serve(core.asCore, core.asCell, func(s *replicaOptions) { s.probeInterval = 100 * time.Millisecond }).guard(withTimeout(5))
	core.stall()
	for _, err := range l.removeAll(deletion, pods) {
		// The API server's own timeout would not contain this message.
		wantDenied(t, err, "could not be reserved with PodProtector "+l.namespace+`/web in core cluster "core" (no answer in time)`,
			"try again, or in an emergency force this pod alone, in this cluster: kubectl breakwater force pod/")
	}
	if left := l.remaining(); left != 2 {
		t.Errorf("%d pods are left, want 2", left)
	}
	r.waitInFlight(0)
	// When the core is known to be silent, a refusal sends nothing to it and waits for nothing. When it answers again, removals are admitted.
	l.eventually(func() string {
		err := deletion(l, pods[0])
		if err == nil || !strings.Contains(err.Error(), unreachable) {
			return fmt.Sprintf("the deletion ends with %v", err)
		}
		return ""
	})
	wantDenied(t, eviction(l, pods[0]), unreachable) // whose pod cannot be read
	for claim, dryRun := range dryRuns() {           // a dry run gets the answer of the removal (rule 8)
		if err := dryRun(l, pods[0]); err == nil || !strings.Contains(err.Error(), unreachable) {
			t.Errorf("%s ends with %v while the core is silent, want the refusal of a removal", claim, err)
		}
	}
	core.heal()
	l.eventually(func() string {
		if err := deletion(l, pods[0]); err != nil {
			return err.Error()
		}
		return ""
	})
	// Nothing may wait for a silent core.
	core.stall()
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// The dry run of kubectl breakwater doctor is about a pod that does not exist.
func TestDryRunOfAMissingPodNamesTheSilentCore(t *testing.T) {
	l := newFixture(t)
	missing := l.pod("web-0").DeepCopy()
	missing.Name = "missing"
	core := l.proxied()
	l.serve(core.asCore, func(s *replicaOptions) { s.probeInterval = 100 * time.Millisecond }).guard()
	core.stall()
	l.eventually(func() string {
		err := dryRuns()["eviction with dryRun"](l, missing)
		if want := removal.OfCore + unreachable; !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), want) {
			return fmt.Sprintf("the dry-run eviction of a missing pod ends with %v, want NotFound and %q", err, want)
		}
		return ""
	})
	if err := eviction(l, missing); !apierrors.IsNotFound(err) || strings.Contains(err.Error(), removal.OfCore) {
		t.Errorf("the eviction of a missing pod ends with %v, want NotFound alone", err)
	}
}

func TestUnresponsiveCellDeniesEvictionsInTime(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 7)
	pod := l.pod("web-0")
	cell := l.proxied()
	r := l.serve(cell.asCell).guard(withTimeout(3))
	cell.stall()
	wantDenied(t, eviction(l, pod), `cannot be read from cell "`+l.cell+`"`, v1alpha1.LabelExempt+"=true")
	// A deletion needs no read of the cell.
	if err := deletion(l, pod); err != nil {
		t.Errorf("deletion: %v", err)
	}
	r.waitInFlight(0)
}

// A reservation whose caller gave up may be stored anyway. It is given back, or else lasts until its deadline. An
// earlier reservation for an admitted removal must survive a lost repetition.
func TestLostRetryKeepsEarlierReservation(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 7)
	pod := l.pod("web-0")
	core := l.proxied()
	r := l.serve(core.asCore)
	if response := r.review(deleteReview(pod)); !response.Allowed {
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
			t.Error("an unresponsive core answered")
		}
	})
	r.waitForBatch(1)
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

func TestReviewsInFlightAreAnsweredOnShutdown(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 30, 40)
	pods := l.pods(32)
	core := l.proxied()
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

func TestNotReadyBeforeProtectorsAreRead(t *testing.T) {
	l := newFixture(t)
	core := l.proxied()
	r := l.start(core.asCore, func(s *replicaOptions) { s.beforeStart = core.stall })
	if err := r.server.Ready(&http.Request{}); err == nil {
		t.Error("ready before a protector was read")
	}
	core.heal()
	l.eventually(func() string {
		if err := r.server.Ready(&http.Request{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestDrainPeriodContinuesAnswering(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 0, 2)
	pod := l.pod("web-0")
	r := l.serve(func(s *replicaOptions) { s.server.Drain = 3 * time.Second })
	stopped := after(func() { _ = r.stop() })
	l.eventually(func() string {
		if err := r.server.Ready(nil); err == nil || !strings.Contains(err.Error(), "draining") {
			return fmt.Sprintf("ready says %v", err)
		}
		return ""
	})
	if least := r.server.ShutdownTimeout(); least < r.server.Drain+30*time.Second {
		t.Errorf("a process that stops the server after %v cuts off reviews", least)
	}
	if response := r.review(deleteReview(pod)); !response.Allowed {
		t.Errorf("removal while draining: %+v, want it admitted", response.Result)
	}
	l.wait(stopped, "the webhook to stop")
}
