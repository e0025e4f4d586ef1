package nodeguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// lateRecords is an API server that cannot read Events while it is throttled, and has the record of one admitted removal.
type lateRecords struct {
	throttled bool
	// admitted is the UID of the pod whose removal was admitted.
	admitted types.UID
	// changes has the methods of the requests that change pods.
	changes []string
}

func (s *lateRecords) RoundTrip(r *http.Request) (*http.Response, error) {
	code, answer := http.StatusOK, any(map[string]any{})
	switch {
	case strings.Contains(r.URL.Path, "/events/") && s.throttled:
		code = http.StatusTooManyRequests
	case strings.Contains(r.URL.Path, "/events/") && !strings.HasSuffix(r.URL.Path, "/"+podhold.AdmittedEvent(s.admitted)):
		code = http.StatusNotFound
	case strings.Contains(r.URL.Path, "/events/"):
		answer = corev1.Event{InvolvedObject: corev1.ObjectReference{UID: s.admitted}}
	case strings.Contains(r.URL.Path, "/pods"):
		s.changes = append(s.changes, r.Method)
	}
	if r.Method == http.MethodPost {
		var p corev1.Pod
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			return nil, err
		}
		p.UID = "registered"
		answer = p
	}
	raw, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, err
}

// newLateFixture is a fixture whose API server is throttled.
func newLateFixture(t *testing.T) (*askingFixture, *lateRecords, *registrar) {
	f := newAskingFixture(t)
	server := &lateRecords{throttled: true}
	account := &Account{server: &url.URL{Scheme: "https", Host: "server"}, upstream: server}
	f.ending.records.own, f.ending.kubelet = account, account
	return f, server, &registrar{guard: f.guard, own: account, kubelet: account, retention: time.Hour}
}

// A node that was cut off returns, and the record of a removal meanwhile cannot be read at first. The pod must not be registered before it can (rule N3):
// afterwards no component asks for its UID.
func TestPodIsNotRegisteredBeforeItIsKnownWhetherItWasRemoved(t *testing.T) {
	f, server, r := newLateFixture(t)
	e, _ := f.guard.entry(f.pod.NamespacedName)
	if err := r.register(t.Context(), e); !errors.Is(err, errUnknown) || len(server.changes) > 0 {
		t.Fatalf("register() = %v, changes %v, want that it waits for the records", err, server.changes)
	}
	server.throttled, server.admitted = false, f.pod.UID
	if err := r.register(t.Context(), e); err != nil || len(server.changes) > 0 {
		t.Fatalf("register() = %v, changes %v, want that the pod ends", err, server.changes)
	}
	if e, ok := f.guard.entry(f.pod.NamespacedName); ok {
		t.Errorf("the pod whose removal was admitted is held: %v, and registered as %q", e.IsHeld(), e.Registered)
	}
}

// Records that cannot be read at all must not keep a pod from being registered until its retention ends it.
func TestPodIsRegisteredBeforeItsRetentionAlthoughRecordsCannotBeRead(t *testing.T) {
	f, _, r := newLateFixture(t)
	e, _ := f.guard.entry(f.pod.NamespacedName)
	f.clock.Step(r.retention / 2)
	if err := r.register(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if e, ok := f.guard.entry(f.pod.NamespacedName); !ok || e.IsHeld() || e.Registered != "registered" {
		t.Errorf("the guard knows %+v (%v), want the registration", e, ok)
	}
}

// A pod whose registration is not complete ends by the removal of either.
func TestAdmittedRemovalEndsPodWhoseRegistrationBegan(t *testing.T) {
	for _, admitted := range []types.UID{"uid-of-web-0", "registered"} {
		f, server, _ := newLateFixture(t)
		server.throttled, server.admitted = false, admitted
		if !f.guard.begin(f.pod, "registered") {
			t.Fatal("begin() = false, want that the pod is held")
		}
		f.ending.check(t.Context())
		if e, ok := f.guard.entry(f.pod.NamespacedName); ok || len(server.changes) != 1 || server.changes[0] != http.MethodDelete {
			t.Errorf("after the removal of %s the pod is held: %v, changes %v, want that it and its registration end", admitted, e.IsHeld(), server.changes)
		}
	}
}
