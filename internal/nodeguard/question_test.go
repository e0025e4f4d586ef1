package nodeguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// answering is an API server that has nothing but the answers of an aggregator. It records the UIDs of the pods that it was to delete.
type answering struct {
	answers []podhold.Answer
	deleted []types.UID
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusNotFound, "{}"
	switch {
	case r.URL.Query().Get("labelSelector") == podhold.LabelAnswers:
		content, err := json.Marshal(a.answers)
		if err != nil {
			return nil, err
		}
		list, err := json.Marshal(corev1.ConfigMapList{Items: []corev1.ConfigMap{{Data: map[string]string{podhold.AnswersKey: string(content)}}}})
		if err != nil {
			return nil, err
		}
		code, body = http.StatusOK, string(list)
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
		code = http.StatusOK
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
			return nil, err
		}
		code, a.deleted = http.StatusOK, append(a.deleted, *options.Preconditions.UID)
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// askingFixture is a guard that holds one pod.
type askingFixture struct {
	*testing.T
	dir string
	// node and machine are those of the next guard that starts.
	node    string
	machine podhold.Machine
	guard   *Guard
	clock   *clocktesting.FakeClock
	server  *answering
	ending  *ending
	pod     podhold.Pod
}

func newAskingFixture(t *testing.T) *askingFixture {
	f := &askingFixture{T: t, dir: filepath.Join(t.TempDir(), podsDir), node: "n", machine: podhold.Machine{System: "a"}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), server: &answering{}}
	f.start()
	f.pod = f.run("web-0")
	f.clock.Step(time.Second)
	f.guard.hold(podhold.Entry{Pod: f.pod})
	return f
}

// start starts a guard with what an earlier one has stored.
func (f *askingFixture) start() {
	f.Helper()
	s, err := newStore(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	s.machine = f.machine
	account := &Account{server: &url.URL{Scheme: "https", Host: "server"}, upstream: f.server}
	r := &records{own: account, namespace: "breakwater-system", store: s, log: logr.Discard()}
	if err := r.learn([]corev1.ConfigMap{list("list", 1, `[{"namespace":"shop","name":"web","selector":{"matchLabels":{"app":"web"}}}]`)}); err != nil {
		f.Fatal(err)
	}
	f.guard = newGuard(f.node, r, s, f.clock, logr.Discard())
	f.ending = &ending{guard: f.guard, records: r, kubelet: account, retention: time.Hour}
}

// run lets the guard see a protected pod of the node that runs.
func (f *askingFixture) run(name string) podhold.Pod {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://1"}}},
	}
	raw, err := podwire.Encode(podwire.JSON, pod)
	if err != nil {
		f.Fatal(err)
	}
	if _, _, err := f.guard.observe(f.Context(), podhold.PodOf(pod), encoded{podwire.JSON, raw}); err != nil {
		f.Fatal(err)
	}
	return podhold.PodOf(pod)
}

// after lets time pass, and the guard check which pods end. It returns the ID of its question, and whether the pod is still held.
func (f *askingFixture) after(d time.Duration) (question string, held bool) {
	f.clock.Step(d)
	f.ending.check(f.Context())
	if q := f.guard.status("").Question; q != nil {
		question = q.ID
	}
	_, held = f.guard.entry(f.pod.NamespacedName)
	return question, held
}

// ends ends a held pod, and reports whether it was held.
func (f *askingFixture) ends(p podhold.Pod, why podhold.End) bool {
	_, ended := f.guard.end(p, why)
	return ended
}

func (f *askingFixture) answer(question string) {
	f.server.answers = []podhold.Answer{{Node: "n", Question: question, Satisfied: []podhold.Ref{"list/shop/web"}}}
}

func TestGuardAsksWhetherHeldPodsAreNeeded(t *testing.T) {
	f := newAskingFixture(t)
	f.guard.explain(f.pod, fmt.Errorf("%w: its volume", errNotSound))
	if q, held := f.after(podhold.SettleTime - time.Second); q != "" || !held {
		t.Fatalf("right after the loss the guard asks %q and holds %v, want no question", q, held)
	}
	first, held := f.after(time.Second)
	if first == "" || !held {
		t.Fatalf("the guard asks %q and holds %v, want a question", first, held)
	}
	again, _ := f.after(podhold.AskEvery - time.Second)
	second, held := f.after(time.Second)
	if again != first || second == first || !held {
		t.Fatalf("questions %q, %q and %q, want another one after %s", first, again, second, podhold.AskEvery)
	}
	f.answer(first)
	if _, held := f.after(time.Second); !held {
		t.Fatal("the pod ended by the answer to an earlier question")
	}
	f.answer(second)
	if _, held := f.after(time.Second); held {
		t.Fatal("the pod is held although its floor is satisfied without it")
	}
	if q, _ := f.after(time.Second); q != "" {
		t.Errorf("question %q without a held pod, want none", q)
	}
}

func TestGuardDoesNotAskAboutPodsThatItCanRegister(t *testing.T) {
	f := newAskingFixture(t)
	f.guard.explain(f.pod, errors.New("the API server is unreachable"))
	if q, held := f.after(podhold.SettleTime); q != "" || !held {
		t.Errorf("the guard asks %q and holds %v, want no question", q, held)
	}
}

// A registration that has begun can be counted, so that its pod is not what a count leaves out.
func TestPodWhoseRegistrationBeganDoesNotEnd(t *testing.T) {
	f := newAskingFixture(t)
	f.guard.explain(f.pod, errNotSound)
	q, _ := f.after(podhold.SettleTime)
	f.answer(q)
	e, _ := f.guard.entry(f.pod.NamespacedName)
	if !f.guard.begin(f.pod, "b") || f.ends(e.Pod, podhold.EndSatisfied) {
		t.Error("the pod ended while it was registered")
	}
	if q, held := f.after(time.Second); q != "" || !held {
		t.Errorf("the guard asks %q and holds %v, want no question", q, held)
	}
	if !f.ends(e.Pod, podhold.EndRetention) || f.guard.begin(f.pod, "c") {
		t.Error("a pod that ended is registered")
	}
}

// The guard decides on the end of a held pod, and meanwhile begins to register it, or registers it again. The kubelet would start the pod as a new one.
func TestRegistrationThatBeganMeanwhileIsDeleted(t *testing.T) {
	for _, decided := range []types.UID{"", "a"} {
		f := newAskingFixture(t)
		f.guard.begin(f.pod, decided)
		e, _ := f.guard.entry(f.pod.NamespacedName)
		f.guard.begin(f.pod, "b")
		f.guard.endHeld(t.Context(), f.ending.records.own, e, podhold.EndReleased)
		if !slices.Equal(f.server.deleted, []types.UID{"b"}) {
			t.Errorf("decided on the registration %q: the guard deleted %q, want b", decided, f.server.deleted)
		}
	}
}

// A pod that admission changes is created and deleted again with each attempt, so that attempts become rare. Other failures end soon.
func TestAttemptsToRegisterBecomeRare(t *testing.T) {
	f := newAskingFixture(t)
	fail := func(times int, err error) (wait time.Duration) {
		for range times {
			wait = f.guard.explain(f.pod, err)
		}
		return wait
	}
	for _, step := range []struct {
		times int
		err   error
		want  time.Duration
	}{
		{100, errors.New("unreachable"), 10 * time.Second},
		{1, errNotSound, 100 * time.Millisecond},
		{19, errNotSound, 10 * time.Minute},
		{1, errors.New("unreachable"), 100 * time.Millisecond},
	} {
		if got := fail(step.times, step.err); got != step.want {
			t.Errorf("the next attempt is after %s, want %s after %d failures: %v", got, step.want, step.times, step.err)
		}
	}
	f.guard.end(f.pod, podhold.EndRetention)
	if got := fail(1, errNotSound); got != 0 || len(f.guard.attempts) > 0 {
		t.Errorf("the guard remembers failures of a pod that has ended: %v", f.guard.attempts)
	}
}

func TestGuardAsksAboutAllProtectorsInTime(t *testing.T) {
	f := newAskingFixture(t)
	var refs []podhold.Ref
	for i := range podhold.MaxReported + 50 {
		refs = append(refs, podhold.Ref(fmt.Sprintf("list/shop/web-%03d", i)))
	}
	missing := slices.Clone(refs)
	for range 200 {
		f.clock.Step(podhold.AskEvery)
		asked := f.guard.ask(map[types.UID][]podhold.Ref{"pod": refs}).Protectors
		if len(asked) != podhold.MaxReported {
			t.Fatalf("a question has %d protectors, want %d", len(asked), podhold.MaxReported)
		}
		missing = slices.DeleteFunc(missing, func(r podhold.Ref) bool { return slices.Contains(asked, r) })
	}
	if len(missing) > 0 {
		t.Errorf("no question in 200 has %v", missing)
	}
}

// The kubelet knows pods by their names: a deletion that comes after another pod of the name stops that one.
func TestHeldPodEndsBeforeAnotherOfItsName(t *testing.T) {
	encode := func(uid types.UID, name string) []byte {
		raw, err := podwire.Encode(podwire.JSON, &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid}, Spec: corev1.PodSpec{NodeName: "n"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for range 12 {
		f := newAskingFixture(t)
		s := &stream{guard: f.guard, format: podwire.JSON, injected: make(chan podwire.Event, 1)}
		f.guard.watches.streams[s] = true
		sent, body := io.Pipe()
		kubelet, to := io.Pipe()
		go func() { to.CloseWithError(s.run(t.Context(), sent, to)) }()
		for i, raw := range [][]byte{encode("other", "other"), encode("new", f.pod.Name)} {
			if i == 1 { // the guard waits for the kubelet to read the first event
				if !f.ends(f.pod, podhold.EndReleased) {
					t.Fatal("the pod is not held")
				}
			}
			event, err := podwire.Event{Type: watch.Added, Object: raw}.Encode(podwire.JSON)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = body.Write(event) }()
			<-time.After(3 * time.Millisecond) // the guard has read the event
		}
		var got []string
		reader := podwire.NewReader(podwire.JSON, kubelet)
		for range 3 {
			e, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			pod, err := podwire.Decode(podwire.JSON, e.Object)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Type)+" "+string(pod.UID))
		}
		if ended := slices.Index(got, "DELETED "+string(f.pod.UID)); ended < 0 || slices.Index(got, "ADDED new") < ended {
			t.Fatalf("the kubelet sees %q, want the end of the held pod before the new one", got)
		}
		_ = body.Close()
	}
}

// The initial events of a watch end with the pods that are held. The end of one comes before them if it is not among them, and otherwise after it.
func TestHeldPodEndsAfterTheInitialEventsThatHaveIt(t *testing.T) {
	const initial = `{"metadata":{"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}}}`
	for claim, c := range map[string]struct {
		endsBefore bool
		want       [2]string
	}{
		"it ended before":     {true, [2]string{"DELETED BOOKMARK ", "BOOKMARK "}},
		"it ended afterwards": {false, [2]string{"ADDED BOOKMARK ", "DELETED BOOKMARK "}},
	} {
		f := newAskingFixture(t)
		s := &stream{guard: f.guard, format: podwire.JSON, listed: map[types.UID]bool{}, injected: make(chan podwire.Event, 1)}
		f.guard.watches.streams[s] = true
		for i, bookmark := range []string{initial, `{}`} {
			if (i == 0) == c.endsBefore && !f.ends(f.pod, podhold.EndReleased) {
				t.Fatal("the pod is not held")
			}
			all, err := s.edit(t.Context(), podwire.Event{Type: watch.Bookmark, Object: []byte(bookmark)})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range all {
				got += string(e.Type) + " "
			}
			if got != c.want[i] {
				t.Errorf("%s: the kubelet sees %q, want %q", claim, got, c.want[i])
			}
		}
	}
}
