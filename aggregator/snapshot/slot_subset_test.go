package snapshot

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// slotModel is a cluster of a few namespaces, and a snapshot of some slots of it.
type slotModel struct {
	version  uint64
	pods     map[types.UID]*corev1.Pod
	snapshot *Snapshot
	// pending is the list in progress, if any, and begun its slots.
	pending []any
	listing slot.Set
	at      string
	// missed are the events since then, which a watch shows after the list.
	missed []func()
	// wanted are the slots that the snapshot was asked to keep, and whole those of which it must have all pods.
	wanted, complete slot.Set
	covered          slot.Set
}

var slotSpec = v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}}

func newSlotModel() *slotModel {
	w := &slotModel{version: 1, pods: map[types.UID]*corev1.Pod{}}
	w.snapshot = New(func(types.NamespacedName, time.Duration) {}, func(err error) { panic(err) }, time.Now, time.Now)
	w.snapshot.KeepOnly(func(slots slot.Set) { w.covered = w.covered.Or(slots) })
	return w
}

func (w *slotModel) create(namespace string) {
	w.version++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("web-", w.version), UID: types.UID(fmt.Sprint("uid-", w.version)),
		ResourceVersion: strconv.FormatUint(w.version, 10), Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName, p.Status.Phase = "node-1", corev1.PodRunning
	setReady(p, true)
	w.pods[p.UID] = p
	w.deliver(w.snapshot.Add, p)
}

func (w *slotModel) remove(p *corev1.Pod) {
	w.version++
	p.ResourceVersion = strconv.FormatUint(w.version, 10)
	delete(w.pods, p.UID)
	w.deliver(w.snapshot.Delete, p)
}

// deliver shows an event, or holds it back while a list is in progress.
func (w *slotModel) deliver(to func(any) error, p *corev1.Pod) {
	seen := p.DeepCopy()
	show := func() {
		if err := to(seen); err != nil {
			panic(err)
		}
	}
	switch {
	case w.pending != nil:
		w.missed = append(w.missed, show)
	case w.snapshot.versions.stream > 0:
		show()
	}
}

// beginList begins a list as a reflector does; land passes it to the snapshot.
func (w *slotModel) beginList() {
	transform := w.snapshot.Transformer()
	w.pending, w.missed, w.listing, w.at = []any{}, nil, w.wanted, strconv.FormatUint(w.version, 10)
	for _, p := range w.pods {
		stripped, err := transform(p.DeepCopy())
		if err != nil {
			panic(err)
		}
		w.pending = append(w.pending, stripped)
	}
}

func (w *slotModel) finishList() {
	if err := w.snapshot.Replace(w.pending, w.at); err != nil {
		panic(err)
	}
	w.complete, w.pending = w.complete.Or(w.listing), nil
	for _, show := range w.missed {
		show()
	}
}

func (w *slotModel) addSlots(slots slot.Set) {
	w.snapshot.AddSlots(slots)
	w.wanted, w.listing = w.wanted.Or(slots), w.listing.Minus(slots)
}

func (w *slotModel) releaseSlots(slots slot.Set) {
	w.snapshot.ReleaseSlots(slots)
	w.wanted, w.complete, w.listing = w.wanted.Minus(slots), w.complete.Minus(slots), w.listing.Minus(slots)
}

// The snapshot counts a namespace exactly, or not at all while any of its pods may be missing.
func TestSlotIsCountedOnlyWhenComplete(t *testing.T) {
	namespaces := []string{"default", "shop", "team-1", "kube-system"}
	rapid.Check(t, func(t *rapid.T) {
		w := newSlotModel()
		some := func() slot.Set {
			return slot.Set{}.With(slot.Of(rapid.SampledFrom(namespaces).Draw(t, "namespace")))
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) { w.create(rapid.SampledFrom(namespaces).Draw(t, "namespace")) },
			"remove": func(t *rapid.T) { w.remove(drawPod(t, w.pods, "pod")) },
			"take": func(*rapid.T) {
				if fresh := some().Minus(w.wanted); !fresh.Empty() {
					w.addSlots(fresh)
				}
			},
			"give up": func(*rapid.T) { w.releaseSlots(some()) },
			"list":    func(*rapid.T) { w.beginList() },
			"land": func(t *rapid.T) {
				if w.pending == nil {
					t.Skip("no list")
				}
				w.finishList()
			},
			"": func(t *rapid.T) { w.check(t, namespaces) },
		})
	})
}

func (w *slotModel) check(t *rapid.T, namespaces []string) {
	kept := 0
	for _, namespace := range namespaces {
		key := types.NamespacedName{Namespace: namespace, Name: "web"}
		coverage, _ := selectors.CountedCoverageOf(&slotSpec, nil)
		w.snapshot.Cover(key, coverage, time.Second)
		whole := w.complete.Has(slot.Of(namespace))
		count, ok := w.snapshot.Count(key, &slotSpec, func(func(quota.Reservation) bool) {}, nil, nil)
		w.snapshot.Uncover(key)
		if ok != whole {
			t.Fatalf("namespace %s is counted: %v, and all of its pods are there: %v", namespace, ok, whole)
		}
		there := 0
		for _, p := range w.pods {
			if p.Namespace == namespace {
				there++
			}
		}
		if whole {
			kept += there
		}
		if whole && w.pending == nil && int(count.Aggregation.CountedReplicas) != there {
			t.Fatalf("namespace %s has %d pods, and %d are counted", namespace, there, count.Aggregation.CountedReplicas)
		}
	}
	if pods, _ := w.snapshot.Size(); w.pending == nil && pods != kept {
		t.Fatalf("%d pods are kept, and %d are of slots that are counted", pods, kept)
	}
	if !w.complete.Minus(w.covered).Empty() {
		t.Fatalf("onCovered was not called with slots %q", w.complete.Minus(w.covered))
	}
}

// The stream does not show the end of a pod whose slot was given up.
func TestPodOfReleasedSlotDoesNotEndLeadership(t *testing.T) {
	var rewound error
	s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { rewound = err }, time.Now, time.Now)
	s.KeepOnly(func(slot.Set) {})
	slots := slot.All()
	s.AddSlots(slots)
	s.filter.beginList()
	lost := samplePod("lost", "lost", "15", nil)
	lost.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if err := s.Replace(nil, "10"); err != nil {
		t.Fatal(err)
	}
	s.RecordUnlisted([]quota.UIDHash{quota.HashUID("lost")}, 20)
	if err := s.Add(lost); err != nil {
		t.Fatal(err)
	}
	s.ReleaseSlots(slots)
	if len(s.removed.terminating) > 0 {
		t.Errorf("the snapshot remembers %d terminating pods of slots that it gave up, want none", len(s.removed.terminating))
	}
	if s.UpdateResourceVersion("21"); rewound != nil {
		t.Errorf("the term ended for %v, want that it continues", rewound)
	}
}
