package nodeguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// namesake is an API server that has one pod, and records the requests that change it.
type namesake struct {
	pod     corev1.Pod
	changes []string
}

func (s *namesake) RoundTrip(r *http.Request) (*http.Response, error) {
	code, answer := http.StatusNotFound, any(map[string]any{})
	switch {
	case !strings.Contains(r.URL.Path, "/pods"):
	case r.Method == http.MethodPost:
		code = http.StatusConflict
	case r.Method == http.MethodGet:
		code, answer = http.StatusOK, s.pod
	default:
		code, s.changes = http.StatusOK, append(s.changes, r.Method)
	}
	raw, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, err
}

// The cache of an API server can be behind that of another, from which the kubelet knows a pod. The pod has changed since the guard saw it: what the
// guard knows must not replace that.
func TestPodMissingFromAStaleListIsNotChanged(t *testing.T) {
	for claim, tc := range map[string]struct {
		// registered is the UID of the pod's registration before the list; empty if it has its own.
		registered, current types.UID
		node                string
		wantHeld            bool
		wantChanges         []string
	}{
		"a pod that was never lost":           {current: "uid-of-web-0", node: "n"},
		"a registration that was never lost":  {registered: "b", current: "b", node: "n"},
		"a pod that returned":                 {registered: "b", current: "uid-of-web-0", node: "n"},
		"an equal replacement is registered":  {current: "c", node: "n", wantChanges: []string{http.MethodPatch, http.MethodPatch}},
		"a restored pod that has no node yet": {current: "uid-of-web-0", wantHeld: true, wantChanges: []string{http.MethodDelete}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := &askingFixture{T: t, dir: t.TempDir(), node: "n", clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), server: &answering{}}
			f.start()
			f.pod = f.run("web-0")
			if tc.registered != "" {
				f.guard.hold(f.pod)
				f.guard.begin(f.pod, tc.registered)
				f.guard.complete(f.pod.NamespacedName, tc.registered)
			}
			f.shown() // a list without the pod
			if e, _ := f.guard.entry(f.pod.NamespacedName); !e.IsHeld() {
				t.Fatal("a protected pod that is not in a list is not held")
			}
			current, err := f.guard.lastState(f.pod.UID)
			if err != nil {
				t.Fatal(err)
			}
			server := &namesake{pod: *current}
			server.pod.UID, server.pod.Spec.NodeName = tc.current, tc.node
			server.pod.Labels = map[string]string{"app": "isolated"}
			if tc.wantChanges != nil {
				server.pod.Status = corev1.PodStatus{}
			}
			account := &Account{server: &url.URL{Scheme: "https", Host: "server"}, upstream: server}
			r := &registrar{guard: f.guard, own: account, kubelet: account}
			if err := r.register(t.Context(), f.pod.NamespacedName); err != nil && !errors.Is(err, errNameTaken) {
				t.Fatal(err)
			}
			if e, _ := f.guard.entry(f.pod.NamespacedName); e.IsHeld() != tc.wantHeld || !tc.wantHeld && e.APIUID() != tc.current {
				t.Errorf("the pod is held: %v, and the API server has it as %s, want %v and %s", e.IsHeld(), e.APIUID(), tc.wantHeld, tc.current)
			}
			if !slices.Equal(server.changes, tc.wantChanges) {
				t.Errorf("the guard changes the pod by %v, want %v", server.changes, tc.wantChanges)
			}
		})
	}
}
