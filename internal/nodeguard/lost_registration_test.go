package nodeguard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// vanishing is an API server that loses the first registration right after its last patch. The watch shows that before the answer to the patch arrives.
type vanishing struct {
	vanish  func(uid types.UID)
	created []types.UID
}

func (s *vanishing) RoundTrip(r *http.Request) (*http.Response, error) {
	code, answer := http.StatusOK, any(map[string]any{})
	switch {
	case strings.Contains(r.URL.Path, "/events/"):
		code = http.StatusNotFound
	case r.Method == http.MethodPost:
		var p corev1.Pod
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			return nil, err
		}
		p.UID = []types.UID{"first", "second"}[len(s.created)]
		s.created, answer = append(s.created, p.UID), p
	case r.Method == http.MethodPatch && !strings.HasSuffix(r.URL.Path, "/status") && len(s.created) == 1:
		s.vanish(s.created[0])
	}
	raw, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, err
}

// A registration that is lost between its last patch and its completion is registered again, and not held until the retention ends it.
func TestRegistrationLostBeforeItsCompletionIsTriedAgain(t *testing.T) {
	f := newAskingFixture(t)
	g := f.guard
	server := &vanishing{vanish: func(uid types.UID) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pods.view.Vanish(podhold.Pod{NamespacedName: f.pod.NamespacedName, UID: uid})
	}}
	account := &Account{server: &url.URL{Scheme: "https", Host: "server"}, upstream: server}
	f.ending.records.own = account
	r := &registrar{guard: g, own: account, kubelet: account, retention: time.Hour}
	lost, _ := g.entry(f.pod.NamespacedName)
	if err := r.register(t.Context(), lost); err == nil {
		t.Fatal("register() = nil although the registration was lost: nothing tries again")
	}
	lost, _ = g.entry(f.pod.NamespacedName)
	if err := r.register(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if e, ok := g.entry(f.pod.NamespacedName); !ok || e.IsHeld() || e.Registered != "second" {
		t.Errorf("the guard knows %+v (%v), want the second registration", e, ok)
	}
}

// The guard records the UID of a registration after the watch has shown that a client deletes it. The kubelet must see that its pod is gone (rule N1).
func TestDeletedRegistrationEndsHeldPod(t *testing.T) {
	f := newAskingFixture(t)
	pod, err := f.guard.lastState(f.pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Unix(1002, 0)
	pod.UID, pod.DeletionTimestamp, pod.Status = "registered", &now, corev1.PodStatus{}
	raw, err := podwire.Encode(podwire.JSON, pod)
	if err != nil {
		t.Fatal(err)
	}
	f.guard.begin(f.pod, pod.UID)
	s := &stream{guard: f.guard, format: podwire.JSON}
	events, err := s.edit(t.Context(), podwire.Event{Type: watch.Deleted, Object: raw})
	if err != nil || len(events) != 1 || events[0].Type != watch.Deleted {
		t.Errorf("the kubelet sees %d events (%v), want that the pod is gone", len(events), err)
	}
	if e, ok := f.guard.entry(f.pod.NamespacedName); ok {
		t.Errorf("the guard still knows %+v", e)
	}
}
