package nodeguard

import (
	"bytes"
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
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
				f.guard.hold(podhold.Entry{Pod: f.pod})
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
			held, _ := f.guard.entry(f.pod.NamespacedName)
			if err := r.register(t.Context(), held); err != nil && !errors.Is(err, errNameTaken) {
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

// slowFirst answers the first question for an admission late.
type slowFirst struct {
	asked, answer chan struct{}
	first         bool
}

func (c *slowFirst) Protects(*corev1.Pod) bool { return true }

func (c *slowFirst) Admission(context.Context, string, types.UID) podhold.Admission {
	if c.first {
		c.first = false
		close(c.asked)
		<-c.answer
	}
	return podhold.Admitted
}

// A late decision on a pod whose removal was admitted must not drop the next pod of its name: the guard would not hold that one (rule N4).
func TestLateDecisionKeepsTheNextPodOfTheName(t *testing.T) {
	f := newAskingFixture(t)
	earlier := f.run("web-1")
	c := &slowFirst{asked: make(chan struct{}), answer: make(chan struct{}), first: true}
	f.guard.cluster = c
	decided := make(chan struct{})
	go func() { // an earlier watch of the kubelet, or a list
		defer close(decided)
		f.guard.decideLost(t.Context(), earlier)
	}()
	<-c.asked
	next := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "next", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://2"}}},
	}
	raw, err := podwire.Encode(podwire.JSON, next)
	if err != nil {
		t.Fatal(err)
	}
	if _, change, err := f.guard.observe(t.Context(), podhold.PodOf(next), encoded{podwire.JSON, raw}); err != nil || change != podhold.Show {
		t.Fatalf("observe() = %v, %v, want that the kubelet sees the next pod", change, err)
	}
	close(c.answer)
	select {
	case <-decided:
	case <-time.After(5 * time.Second):
		t.Fatal("no decision")
	}
	if e, ok := f.guard.entry(podhold.PodOf(next).NamespacedName); !ok || e.Pod.UID != "next" {
		t.Errorf("the guard knows %+v (%v), want the next pod", e.Pod, ok)
	}
}

// What was decided or found out about a pod says nothing about the next pod of its name, nor about its registration.
func TestDecisionsOnEarlierPodsOfTheNameChangeNothing(t *testing.T) {
	f := newAskingFixture(t)
	earlier := f.pod
	earlier.UID = "earlier"
	if f.guard.explain(earlier, errNotSound); len(f.guard.attempts) > 0 {
		t.Errorf("the guard cannot register %v, want only the earlier pod", f.guard.attempts)
	}
	if !f.guard.begin(f.pod, "registered") {
		t.Fatal("begin() = false, want that the pod is held")
	}
	f.guard.complete(f.pod.NamespacedName, "registered")
	for _, lost := range []podhold.Entry{{Pod: earlier}, {Pod: f.pod}} {
		if !f.guard.hold(lost) || !f.guard.drop(lost) {
			t.Errorf("a decision on the UID %s removes the pod that was registered since", lost.APIUID())
		}
		if e, ok := f.guard.entry(f.pod.NamespacedName); !ok || e.IsHeld() || e.APIUID() != "registered" {
			t.Errorf("after a decision on the UID %s the guard knows %+v (%v), want the registration", lost.APIUID(), e, ok)
		}
	}
}
