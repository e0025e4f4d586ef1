package aggregator

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

// Another process of the core, such as a former leader or the aggregator of another cell of the cluster, may have set the label a moment ago.
func TestLabelOfAnotherProcessSettles(t *testing.T) {
	namespace := testplane.Namespace(t)
	p := protectorOf(namespace, "a")
	another := newLabeler(t, namespace)
	another.cached = []*v1alpha1.PodProtector{p}
	another.must(t, another.process(t.Context(), namespace))

	for claim, c := range map[string]struct {
		before func(*labeler)
		was    bool
		want   bool
	}{
		"a protector that has not been counted":     {func(*labeler) {}, false, false},
		"one that was guarded at the last count":    {func(*labeler) {}, true, true},
		"after the namespace was created again":     {func(l *labeler) { l.namespaceChanged(inMemory(namespace, "true"), false) }, true, false},
		"after the namespace had lost the label":    {func(l *labeler) { l.namespaceChanged(inMemory(namespace, "false"), true) }, true, false},
		"after the namespace was seen with a label": {func(l *labeler) { l.namespaceChanged(inMemory(namespace, "true"), true) }, true, true},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newLabeler(t, namespace)
			l.cached = []*v1alpha1.PodProtector{p}
			c.before(l)
			l.must(t, l.process(t.Context(), namespace))
			if got := l.isSettled(p, c.was); got != c.want {
				t.Errorf("isSettled() = %v, want %v", got, c.want)
			}
			l.now = l.now.Add(labelSettle)
			if !l.isSettled(p, false) {
				t.Errorf("isSettled() = false after %s, want true", labelSettle)
			}
		})
	}
}

func inMemory(namespace, label string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{v1alpha1.LabelProtected: label}}}
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
