package sharder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// lightPasses returns how many passes of a world were light.
func (w *simulatedCluster) lightPasses() float64 {
	return sumOfSeries(w.metrics, "breakwater_ring_passes_total", ringName, passLight)
}

// disturbance misplaces one object of a world, and returns what it did; empty if there is no suitable object.
type disturbance func(w *simulatedCluster) string

// setLabels sets the labels of an object, as a user would without admission.
func (w *simulatedCluster) setLabels(t *simulatedObject, labels map[string]string) {
	w.version++
	t.ResourceVersion, t.Labels = fmt.Sprint(w.version), labels
}

// randomObject returns a random object of a world for which is returns true.
func (w *simulatedCluster) randomObject(matches func(key id, t *simulatedObject) bool) (id, *simulatedObject) {
	all := slices.DeleteFunc(w.ids(), func(key id) bool { return !matches(key, w.objects[key]) })
	if len(all) == 0 {
		return id{}, nil
	}
	key := all[w.IntN(len(all))]
	return key, w.objects[key]
}

// isWith reports whether an object is with a shard.
func (w *simulatedCluster) isWith(_ id, t *simulatedObject) bool { return w.placement(t).Shard != "" }

// relabel is a harm that sets labels on an object that is with a shard: %s in them is that shard.
func relabel(labels map[string]string) disturbance {
	return func(w *simulatedCluster) string {
		of, t := w.randomObject(w.isWith)
		if t == nil {
			return ""
		}
		now := map[string]string{}
		for key, value := range labels {
			now[key] = strings.ReplaceAll(value, "%s", w.placement(t).Shard)
		}
		w.setLabels(t, now)
		return fmt.Sprint(of, " gets ", now)
	}
}

// visibleDisturbances returns the harms that a light pass finds.
func visibleDisturbances() map[string]disturbance {
	shard, drain := v1alpha1.LabelShard(ringName), v1alpha1.LabelDrain(ringName)
	return map[string]disturbance{
		"no shard has the object":                                          relabel(nil),
		"the shard of the object does not exist":                           relabel(map[string]string{shard: "gone"}),
		"a shard is asked to release the object":                           relabel(map[string]string{shard: "%s", drain: v1alpha1.DrainAsked}),
		"a shard is asked to release the object by an unknown label value": relabel(map[string]string{shard: "%s", drain: "x"}),
		"the object is released and not assigned":                          relabel(map[string]string{drain: v1alpha1.DrainAnswered}),
		"the object is draining, and no shard has it":                      relabel(map[string]string{drain: v1alpha1.DrainAsked}),
		"the dead shard of the object was asked to release it":             relabel(map[string]string{shard: "gone", drain: v1alpha1.DrainAsked}),
		"another object replaces the object": func(w *simulatedCluster) string {
			key, t := w.randomObject(func(key id, t *simulatedObject) bool { return key.Resource != "parts" && w.isWith(key, t) })
			if t == nil {
				return ""
			}
			delete(w.objects, key)
			w.hasWebhook = false
			w.create(w.widgets, "in", fmt.Sprint("new-", w.version))
			w.hasWebhook = true
			return fmt.Sprint(key, " goes, and another one comes")
		},
	}
}

// annotate annotates an object so that it may belong to another shard.
func annotate(w *simulatedCluster) string {
	key, t := w.randomObject(func(key id, t *simulatedObject) bool { return key.Resource != "parts" && w.isWith(key, t) })
	if t == nil {
		return ""
	}
	t.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: fmt.Sprint("key-", w.version)}
	return fmt.Sprint(key, " is annotated")
}

// hiddenDisturbances returns the harms that only a whole pass finds: each object is with a shard that takes part, but is not the right one.
func hiddenDisturbances() map[string]disturbance {
	shard := v1alpha1.LabelShard(ringName)
	return map[string]disturbance{
		"the object is with another shard": func(w *simulatedCluster) string {
			key, t := w.randomObject(w.isWith)
			others := slices.DeleteFunc(w.shardNames(), func(name string) bool { return t == nil || name == w.placement(t).Shard })
			if len(others) == 0 {
				return ""
			}
			w.setLabels(t, map[string]string{shard: others[0]})
			t.formerShards[others[0]] = true
			return fmt.Sprint(key, " is given to ", others[0])
		},
		"an annotation places the object with others": annotate,
		"a user drained the object, and it went to another shard": func(w *simulatedCluster) string {
			done := annotate(w)
			key, t := w.randomObject(func(key id, _ *simulatedObject) bool {
				return strings.HasPrefix(done, fmt.Sprint(key, " is annotated"))
			})
			if t == nil {
				return ""
			}
			w.setPlacement(t, w.placement(t).Shard, true)
			return fmt.Sprint(key, " is annotated, and asked for")
		},
		"the object has no controller any more": func(w *simulatedCluster) string {
			key, t := w.randomObject(func(key id, t *simulatedObject) bool { return key.Resource == "parts" && w.isWith(key, t) })
			if t == nil {
				return ""
			}
			t.OwnerReferences = nil
			return fmt.Sprint(key, " is left alone")
		},
		"another object controls the object": func(w *simulatedCluster) string {
			key, t := w.randomObject(func(key id, t *simulatedObject) bool { return key.Resource == "parts" && w.isWith(key, t) })
			_, owner := w.randomObject(func(key id, t *simulatedObject) bool { return key.Resource == "nodes" && w.isWith(key, t) })
			if t == nil || owner == nil {
				return ""
			}
			t.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "x.io/v1", Kind: "Node", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
			}}
			return fmt.Sprint(key, " is adopted by ", owner.Name)
		},
		"the object is labeled, but not in the ring": func(w *simulatedCluster) string {
			key, t := w.randomObject(func(key id, t *simulatedObject) bool { return !w.isMember(key.namespace) && !w.isWith(key, t) })
			if t == nil || len(w.members) == 0 {
				return ""
			}
			w.setLabels(t, map[string]string{shard: w.shardNames()[0]})
			return fmt.Sprint(key, " is labeled")
		},
	}
}

// newBalancedCluster returns a world whose objects are with their shards, and whose passes are light.
func newBalancedCluster(t *rapid.T) (*simulatedCluster, *PassReconciler) {
	w := newSimulatedCluster(rapid.Uint64().Draw(t, "seed"))
	w.onlyShardsAct, w.linger = true, 0
	for i := range rapid.IntRange(1, 4).Draw(t, "shards") {
		w.join(fmt.Sprint("s-", i))
	}
	for _, m := range w.members {
		m.hangs = false
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "objects") {
		w.create(w.nodes, "", fmt.Sprint("n-", i))
		for _, namespace := range []string{"in", "also-in", "out"} {
			w.create([]*resource{w.widgets, w.parts}[w.IntN(2)], namespace, fmt.Sprint("o-", i))
		}
	}
	p := w.passes()
	if err := w.run(p, 20*time.Minute, func() bool { return w.lightPasses() > 0 }); err != nil {
		t.Fatalf("no pass is light: %v\n%s", err, w.logBeforeViolation())
	}
	if left := w.misplaced(); len(left) > 0 {
		t.Fatalf("light pass missed a misplaced object:\n%s\n%s", strings.Join(left, "\n"), w.logBeforeViolation())
	}
	return w, p
}

// waitUntilBalanced waits until all objects are with their shards, and passes are light again.
func (w *simulatedCluster) waitUntilBalanced(t *rapid.T, p *PassReconciler, within time.Duration) {
	var left []string
	if err := w.run(p, within, func() bool { left = w.misplaced(); return len(left) == 0 }); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, strings.Join(left, "\n"), w.logBeforeViolation())
	}
	lights := w.lightPasses()
	if err := w.run(p, 10*time.Minute, func() bool { return w.lightPasses() > lights }); err != nil {
		t.Fatalf("passes are no longer light: %v\n%s", err, w.logBeforeViolation())
	}
	if len(w.violations) > 0 {
		t.Fatalf("%s\n%s", strings.Join(w.violations, "\n"), w.logBeforeViolation())
	}
}

// The next resync finds each object that visibly cannot be with its shard, even when it is light. The next whole pass finds every other
// misplaced object.
func TestLightPassesFindMisplacedObjects(t *testing.T) {
	for claim, harms := range map[string]struct {
		of     map[string]disturbance
		within time.Duration // plus the time to move
	}{
		"visible disturbances, at the next resync":                 {visibleDisturbances(), 80 * time.Second},
		"hidden disturbances, at the twelfth resync at the latest": {hiddenDisturbances(), 13 * time.Minute},
	} {
		t.Run(claim, func(t *testing.T) {
			found := map[string]bool{}
			rapid.Check(t, func(t *rapid.T) {
				w, p := newBalancedCluster(t)
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(harms.of))).Draw(t, "harm")
				done := harms.of[name](w)
				found[name] = found[name] || done != ""
				w.logf("%s", done)
				w.waitUntilBalanced(t, p, harms.within)
			})
			for name := range harms.of {
				if !found[name] {
					t.Errorf("disturbance %q never applied to an object", name)
				}
			}
		})
	}
}

// A light pass costs the same for any number of objects.
func TestLightPassReadsNoBalancedObjects(t *testing.T) {
	read := func(objects int) int {
		w := newSimulatedCluster(1)
		w.onlyShardsAct = true
		w.join("s-0")
		w.members["s-0"].hangs = false
		for i := range objects {
			w.create(w.nodes, "", fmt.Sprint("n-", i))
		}
		p := w.passes()
		if err := w.run(p, time.Hour, func() bool { return w.lightPasses() > 0 }); err != nil {
			t.Fatal(err, w.logBeforeViolation())
		}
		w.read = 0
		lights := w.lightPasses()
		if err := w.run(p, time.Hour, func() bool { return w.lightPasses() > lights }); err != nil {
			t.Fatal(err, w.logBeforeViolation())
		}
		return w.read
	}
	if few, many := read(10), read(400); few != many || few > 10 {
		t.Errorf("light pass read %d of 10 objects, and %d of 400, want equal numbers", few, many)
	}
}

// Where an API server rejects the selector of a light pass, or does not return the number of objects, the pass is whole.
func TestPassIsFullWhenLightIsImpossible(t *testing.T) {
	for claim, deny := range map[string]func(*metav1.PartialObjectMetadataList, metav1.ListOptions) error{
		"the API server rejects the selector": func(_ *metav1.PartialObjectMetadataList, options metav1.ListOptions) error {
			if options.LabelSelector != "" {
				return apierrors.NewRequestEntityTooLargeError("too long")
			}
			return nil
		},
		"the API server omits the remaining item count": func(list *metav1.PartialObjectMetadataList, _ metav1.ListOptions) error {
			list.RemainingItemCount = nil
			return nil
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newSimulatedCluster(1)
			w.onlyShardsAct, w.linger = true, 0
			w.join("s-0")
			for i := range 30 {
				w.create(w.widgets, "in", fmt.Sprint("w-", i))
			}
			p := w.passes()
			if err := w.run(p, time.Hour, func() bool { return w.lightPasses() > 0 }); err != nil {
				t.Fatal(err, w.logBeforeViolation())
			}
			lights, done := w.lightPasses(), sumOfSeries(w.metrics, "breakwater_ring_passes_total", ringName, passDone)
			w.rejectList = deny
			if err := w.run(p, time.Hour, func() bool {
				return sumOfSeries(w.metrics, "breakwater_ring_passes_total", ringName, passDone) > done+1
			}); err != nil {
				t.Fatal(err, w.logBeforeViolation())
			}
			if n := sumOfSeries(w.metrics, "breakwater_ring_passes_total", ringName, passFailed); n > 0 || w.lightPasses() > lights {
				t.Errorf("got %v failed and %v light passes", n, w.lightPasses()-lights)
			}
		})
	}
}

// A world's counts are those of its last whole pass, and deviate by at most one in 20.
func TestCountsStayClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, p := newBalancedCluster(t)
		for i := range rapid.IntRange(1, 100).Draw(t, "more") {
			w.create(w.nodes, "", fmt.Sprint("more-", i))
		}
		w.waitUntilBalanced(t, p, 2*time.Minute)
		want := int64(0)
		for key := range w.objects {
			if key.Resource != "parts" && w.isMember(key.namespace) {
				want++
			}
		}
		if got := p.results.get(ringName).count.assigned; 20*(want-got) > want || got > want {
			t.Fatalf("counted %d objects, want about %d\n%s", got, want, w.logBeforeViolation())
		}
	})
}
