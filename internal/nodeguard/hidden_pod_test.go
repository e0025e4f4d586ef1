package nodeguard

import (
	"errors"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// newPod returns a pod that has the name of the held one and other containers, encoded as an event or an item of a list.
func (f *askingFixture) newPod(uid types.UID) []byte {
	f.Helper()
	raw, err := podwire.Encode(podwire.JSON, &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: f.pod.Namespace, Name: f.pod.Name, UID: uid},
		Spec:       corev1.PodSpec{NodeName: f.node, Containers: []corev1.Container{{Name: "new"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	return raw
}

// list lets the kubelet list the pods of an API server that has only the given ones. It returns the UIDs that the kubelet sees.
func (f *askingFixture) list(pods ...string) (seen []types.UID) {
	f.Helper()
	body := []byte(`{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[]}`)
	list, err := podwire.ParseList(podwire.JSON, body)
	if err != nil {
		f.Fatal(err)
	}
	var items [][]byte
	for _, uid := range pods {
		items = append(items, f.newPod(types.UID(uid)))
	}
	if body, err = list.WithItems(items); err != nil {
		f.Fatal(err)
	}
	if body, err = f.guard.observeList(f.Context(), podwire.JSON, body); err != nil {
		f.Fatal(err)
	}
	if list, err = podwire.ParseList(podwire.JSON, body); err != nil {
		f.Fatal(err)
	}
	for _, item := range list.Items() {
		pod, err := podwire.Decode(podwire.JSON, item)
		if err != nil {
			f.Fatal(err)
		}
		seen = append(seen, pod.UID)
	}
	return seen
}

// watch lets the kubelet watch its pods, and returns what the API server sends and what the kubelet reads.
func (f *askingFixture) watch() (send func(watch.EventType, types.UID), next func() (string, error)) {
	f.Helper()
	body, to := io.Pipe()
	f.Cleanup(func() { _ = to.Close() })
	reader := podwire.NewReader(podwire.JSON, f.guard.watchPods(f.Context(), podwire.JSON, body, false))
	send = func(kind watch.EventType, uid types.UID) {
		event, err := podwire.Event{Type: kind, Object: f.newPod(uid)}.Encode(podwire.JSON)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := to.Write(append(event, []byte(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1"}}`+"\n")...)); err != nil {
			f.Fatal(err)
		}
		if got, err := next(); err != nil || got != string(watch.Bookmark)+" " { // the guard has edited the event
			f.Fatalf("the kubelet sees %q (%v), want only a bookmark", got, err)
		}
	}
	next = func() (string, error) {
		e, err := reader.Next()
		if err != nil {
			return "", err
		}
		pod, err := podwire.Decode(podwire.JSON, e.Object)
		if err != nil {
			return "", err
		}
		return string(e.Type) + " " + string(pod.UID), nil
	}
	return send, next
}

// No event shows the hidden pod when the held one ends: its own event passed before.
func TestKubeletListsItsPodsOnceHeldPodThatHidAnotherEnds(t *testing.T) {
	for claim, c := range map[string]struct {
		events []watch.EventType
		lists  bool
	}{
		"another pod of the name is hidden":      {[]watch.EventType{watch.Added}, true},
		"the hidden pod has changed":             {[]watch.EventType{watch.Added, watch.Modified}, true},
		"the hidden pod was deleted":             {[]watch.EventType{watch.Added, watch.Deleted}, false},
		"the API server has no pod of the name":  {nil, false},
		"another hidden pod replaced the former": {[]watch.EventType{watch.Added, watch.Deleted, watch.Added}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newAskingFixture(t)
			f.list()
			send, next := f.watch()
			for _, kind := range c.events {
				send(kind, "new")
			}
			if !f.ends(f.pod, podhold.EndReleased) {
				t.Fatal("the pod is not held")
			}
			if got, err := next(); err != nil || got != "DELETED "+string(f.pod.UID) {
				t.Fatalf("the kubelet sees %q (%v), want that the held pod ended", got, err)
			}
			if f.guard.mustResync() != c.lists {
				t.Fatalf("mustResync() = %v, want %v", !c.lists, c.lists)
			}
			if !c.lists {
				return
			}
			if got, err := next(); !errors.Is(err, io.EOF) {
				t.Errorf("the kubelet sees %q (%v), want the end of its watch", got, err)
			}
			if seen := f.list("new"); !slices.Equal(seen, []types.UID{"new"}) {
				t.Errorf("the kubelet lists %v, want the pod that was hidden", seen)
			}
		})
	}
}

// A held pod can end after the kubelet has listed it, and before its watch is there to get the deletion.
func TestKubeletListsAgainIfHeldPodEndedSinceItListed(t *testing.T) {
	f := newAskingFixture(t)
	if seen := f.list("new"); !slices.Equal(seen, []types.UID{f.pod.UID}) || f.guard.mustResync() {
		t.Fatalf("the kubelet lists %v, and must list again: %v; want the held pod", seen, f.guard.mustResync())
	}
	began := f.guard.endsSoFar()
	if !f.ends(f.pod, podhold.EndReleased) || !f.guard.mustResync() {
		t.Error("mustResync() = false after a held pod ended while the kubelet does not watch, want true")
	}
	_, next := f.watch() // its request was let through before
	if got, err := next(); !errors.Is(err, io.EOF) {
		t.Errorf("the kubelet sees %q (%v), want the end of its watch", got, err)
	}
	f.guard.recordListed(began)
	if !f.guard.mustResync() {
		t.Error("mustResync() = false after a list that began before the held pod ended, want true")
	}
	if seen := f.list("new"); !slices.Equal(seen, []types.UID{"new"}) {
		t.Errorf("the kubelet lists %v, want the pod that was hidden", seen)
	}
}
