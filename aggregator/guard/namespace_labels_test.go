package guard

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// labeler is a process of one core that labels a namespace of a real API server.
type labeler struct {
	*namespaceLabels
	namespace string
	// cached and live are the protectors that its watch, and its API server, show.
	cached, live []*v1alpha1.PodProtector
	// beforeList runs before a live list of the protectors.
	beforeList func()
	now        time.Time
}

func newLabeler(t *testing.T, namespace string) *labeler {
	l := &labeler{namespace: namespace, beforeList: func() {}, now: time.Unix(0, 0)}
	l.namespaceLabels = &namespaceLabels{
		core: "core", client: metadata.NewForConfigOrDie(testplane.Config(t)).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}),
		stored:     toolscache.NewStore(toolscache.MetaNamespaceKeyFunc),
		protectors: func(string) []*v1alpha1.PodProtector { return l.cached },
		hasAny: func(context.Context, string) (bool, error) {
			l.beforeList()
			return len(l.live) > 0, nil
		},
		owns: func(string) bool { return true }, enqueueProtectors: func(func(string) bool) {},
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		retention: time.Minute, monotonic: func() time.Time { return l.now }, log: testr.New(t), states: map[string]labelState{},
	}
	t.Cleanup(l.queue.ShutDown)
	return l
}

func (l *labeler) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// has reports whether the namespace has the label, and returns its annotation.
func (l *labeler) has(t *testing.T) (label bool, cores string) {
	t.Helper()
	found, err := l.client.Get(t.Context(), l.namespace, metav1.GetOptions{})
	l.must(t, err)
	return found.Labels[v1alpha1.LabelProtected] == "true", found.Annotations[v1alpha1.AnnotationProtectedBy]
}

func (l *labeler) want(t *testing.T, wantLabel bool, wantCores string) {
	t.Helper()
	if label, cores := l.has(t); label != wantLabel || cores != wantCores {
		t.Fatalf("label %v, cores %q, want %v, %q", label, cores, wantLabel, wantCores)
	}
}

func protectorOf(namespace string, uid types.UID) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(uid), UID: uid}}
}

func TestLabelSettlesBeforeAProtectorCounts(t *testing.T) {
	namespace := testplane.Namespace(t)
	l, p := newLabeler(t, namespace), protectorOf(namespace, "a")
	l.cached = []*v1alpha1.PodProtector{p}
	for _, was := range []bool{true, false} {
		if got := l.isSettled(p, was); got != was {
			t.Errorf("isSettled() of a namespace that was not read = %v, want %v as before", got, was)
		}
	}
	l.must(t, l.process(t.Context(), namespace))
	l.want(t, true, "core")
	wantSettled := func(p *v1alpha1.PodProtector, want bool) {
		t.Helper()
		if got := l.isSettled(p, !want); got != want {
			t.Errorf("isSettled() of protector %s = %v at %s, want %v", p.Name, got, l.now.UTC(), want)
		}
	}
	l.now = l.now.Add(labelSettle - time.Millisecond)
	wantSettled(p, false)
	l.now = l.now.Add(time.Millisecond)
	wantSettled(p, true)
	second := protectorOf(namespace, "b")
	wantSettled(second, false) // the namespace was not read since it exists
	l.cached = append(l.cached, second)
	l.must(t, l.process(t.Context(), namespace))
	wantSettled(second, true)
}

// Another process of the core may have set the label just before, and the API server evaluates namespaceSelectors with a cache that is late.
func TestLabelOfAnotherProcessMayBeYoung(t *testing.T) {
	namespace := testplane.Namespace(t)
	first, second := newLabeler(t, namespace), newLabeler(t, namespace)
	p := protectorOf(namespace, "a")
	first.cached, second.cached = []*v1alpha1.PodProtector{p}, []*v1alpha1.PodProtector{p}
	first.must(t, first.process(t.Context(), namespace))
	second.must(t, second.process(t.Context(), namespace))
	if second.isSettled(p, false) {
		t.Error("isSettled() = true of a label that another process has just set, want false")
	}
	if !second.isSettled(p, true) {
		t.Error("isSettled() = false of a protector that reports to be guarded, want true: the label was there before")
	}
	second.now = second.now.Add(labelSettle)
	if !second.isSettled(p, false) {
		t.Errorf("isSettled() = false %s after a read found the label, want true", labelSettle)
	}
}

func TestLabelThatWasLostSettlesAgain(t *testing.T) {
	namespace := testplane.Namespace(t)
	unlabeled := func(uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: uid}}
	}
	for name, lose := range map[string]func(l *labeler, uid types.UID){
		"recreated, and the watch is late": func(l *labeler, _ types.UID) {
			former := l.states[namespace]
			former.uid = "former"
			l.states[namespace] = former
		},
		"recreated":               func(l *labeler, _ types.UID) { l.namespaceChanged(unlabeled("former"), true) },
		"removed, and set again":  func(l *labeler, uid types.UID) { l.namespaceChanged(unlabeled(uid), true) },
		"deleted, and recreated":  func(l *labeler, uid types.UID) { l.namespaceChanged(unlabeled(uid), false) },
		"released, and set again": func(l *labeler, uid types.UID) { l.states[namespace] = labelState{uid: uid, releasingSince: l.now} },
	} {
		l, p := newLabeler(t, namespace), protectorOf(namespace, "a")
		l.cached = []*v1alpha1.PodProtector{p}
		l.must(t, l.process(t.Context(), namespace))
		l.now = l.now.Add(labelSettle)
		l.must(t, l.process(t.Context(), namespace))
		if !l.isSettled(p, false) {
			t.Fatalf("isSettled() = false after %s, want true", labelSettle)
		}
		found, err := l.client.Get(t.Context(), namespace, metav1.GetOptions{})
		l.must(t, err)
		lose(l, found.UID)
		l.must(t, l.process(t.Context(), namespace)) // another process has set the label again
		if l.isSettled(p, true) {
			t.Errorf("%s: isSettled() = true of a label that was set again, want false", name)
		}
		l.now = l.now.Add(labelSettle)
		if !l.isSettled(p, false) {
			t.Errorf("%s: isSettled() = false %s after that, want true", name, labelSettle)
		}
	}
}

// A protector that waits for its label does not become Ready when a watch shows the end of the namespace, which may exist again.
func TestDeletedNamespaceIsReadBeforeItNeedsNoLabel(t *testing.T) {
	l, p := newLabeler(t, "missing"), protectorOf("missing", "a")
	l.cached = []*v1alpha1.PodProtector{p}
	l.namespaceChanged(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "missing", UID: "former"}}, false)
	if l.isSettled(p, false) || !l.isSettled(p, true) || l.queue.Len() != 1 {
		t.Error("isSettled() differs from what was reported, or no read is due, want that the namespace is read first")
	}
	l.must(t, l.process(t.Context(), "missing"))
	if !l.isSettled(p, false) {
		t.Error("isSettled() = false of a namespace that does not exist, want true")
	}
}

// A watch that is late may not show a namespace that exists.
func TestMissingNamespaceIsReadOnce(t *testing.T) {
	l := newLabeler(t, "missing")
	p := protectorOf("missing", "a")
	l.cached = []*v1alpha1.PodProtector{p}
	if l.isSettled(p, false) || l.queue.Len() != 1 {
		t.Error("isSettled() of a new protector = true, or no read is due, want false until the namespace has been read")
	}
	l.must(t, l.process(t.Context(), "missing"))
	if !l.isSettled(p, false) {
		t.Error("isSettled() = false of a namespace that does not exist, want true")
	}
	l.must(t, l.stored.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "missing", UID: "new"}}))
	if l.isSettled(p, true) {
		t.Error("isSettled() = true of a namespace that was created since, want false")
	}
}

func TestReleaseOfLabelTakesTwoWritesAndTime(t *testing.T) {
	namespace := testplane.Namespace(t)
	l := newLabeler(t, namespace)
	l.cached = []*v1alpha1.PodProtector{protectorOf(namespace, "a")}
	l.must(t, l.process(t.Context(), namespace))
	l.cached, l.live = nil, []*v1alpha1.PodProtector{protectorOf(namespace, "b")}
	l.must(t, l.process(t.Context(), namespace))
	l.want(t, true, "core") // the watch is late
	l.live = nil
	l.must(t, l.process(t.Context(), namespace))
	l.want(t, true, "core:releasing")
	l.must(t, l.process(t.Context(), namespace))
	l.now = l.now.Add(l.retention - time.Millisecond)
	l.must(t, l.process(t.Context(), namespace))
	l.want(t, true, "core:releasing")
	l.now = l.now.Add(time.Millisecond)
	l.must(t, l.process(t.Context(), namespace))
	l.want(t, false, "")
}

// A leader that was deposed between its list of the protectors and its write does not remove the label of a new protector.
func TestNewProtectorTakesReleaseBack(t *testing.T) {
	namespace := testplane.Namespace(t)
	former, successor := newLabeler(t, namespace), newLabeler(t, namespace)
	former.cached = []*v1alpha1.PodProtector{protectorOf(namespace, "a")}
	former.must(t, former.process(t.Context(), namespace))
	former.cached = nil
	former.must(t, former.process(t.Context(), namespace))
	former.must(t, former.process(t.Context(), namespace))
	former.want(t, true, "core:releasing")

	former.now = former.now.Add(former.retention)
	p := protectorOf(namespace, "b")
	successor.cached = []*v1alpha1.PodProtector{p}
	former.beforeList = func() { successor.must(t, successor.process(t.Context(), namespace)) }
	if err := former.process(t.Context(), namespace); !apierrors.IsConflict(err) {
		t.Errorf("process() of the deposed leader = %v, want a conflict", err)
	}
	former.want(t, true, "core")
	successor.now = successor.now.Add(labelSettle)
	if !successor.isSettled(p, false) {
		t.Error("isSettled() = false of a label that was never off, want true")
	}
}

// The watch of a process is late: it did not see that another one set the label again for a protector, which has vanished since.
func TestReleaseOfLabelStartsAgain(t *testing.T) {
	namespace := testplane.Namespace(t)
	late, other := newLabeler(t, namespace), newLabeler(t, namespace)
	end := func() { // the last protector ends
		other.cached = []*v1alpha1.PodProtector{protectorOf(namespace, "a")}
		other.must(t, other.process(t.Context(), namespace))
		other.cached = nil
		other.must(t, other.process(t.Context(), namespace))
	}
	end()
	late.must(t, late.process(t.Context(), namespace))
	late.now = late.now.Add(late.retention - time.Millisecond)
	end()
	late.now = late.now.Add(time.Millisecond)
	late.must(t, late.process(t.Context(), namespace))
	late.want(t, true, "core:releasing")
	late.now = late.now.Add(late.retention)
	late.must(t, late.process(t.Context(), namespace))
	late.want(t, false, "")
}
