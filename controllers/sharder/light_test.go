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

// lights returns how many passes of a world were light.
func (w *world) lights() float64 {
	return sum(w.metrics, "breakwater_ring_passes_total", ringName, passLight)
}

// harm misplaces one object of a world, and returns what it did; empty if there is no suitable object.
type harm func(w *world) string

// tag sets the labels of an object, as a user would without admission.
func (w *world) tag(t *thing, labels map[string]string) {
	w.version++
	t.ResourceVersion, t.Labels = fmt.Sprint(w.version), labels
}

// any returns a random object of a world for which is returns true.
func (w *world) any(is func(of id, t *thing) bool) (id, *thing) {
	all := slices.DeleteFunc(w.ids(), func(of id) bool { return !is(of, w.objects[of]) })
	if len(all) == 0 {
		return id{}, nil
	}
	of := all[w.IntN(len(all))]
	return of, w.objects[of]
}

// isWith reports whether an object is with a shard.
func (w *world) isWith(_ id, t *thing) bool { return w.placement(t).Shard != "" }

// tagged is a harm that sets labels on an object that is with a shard: %s in them is that shard.
func tagged(labels map[string]string) harm {
	return func(w *world) string {
		of, t := w.any(w.isWith)
		if t == nil {
			return ""
		}
		now := map[string]string{}
		for key, value := range labels {
			now[key] = strings.ReplaceAll(value, "%s", w.placement(t).Shard)
		}
		w.tag(t, now)
		return fmt.Sprint(of, " gets ", now)
	}
}

// visible returns the harms that a light pass finds.
func visible() map[string]harm {
	shard, drain := v1alpha1.LabelShard(ringName), v1alpha1.LabelDrain(ringName)
	return map[string]harm{
		"no shard has it":                      tagged(nil),
		"its shard does not exist":             tagged(map[string]string{shard: "gone"}),
		"it is asked for":                      tagged(map[string]string{shard: "%s", drain: v1alpha1.DrainAsked}),
		"it is asked for, by whoever":          tagged(map[string]string{shard: "%s", drain: "x"}),
		"it is let go of, and not assigned":    tagged(map[string]string{drain: v1alpha1.DrainAnswered}),
		"it is asked for, and no shard has it": tagged(map[string]string{drain: v1alpha1.DrainAsked}),
		"its dead shard was asked for it":      tagged(map[string]string{shard: "gone", drain: v1alpha1.DrainAsked}),
		"one has come for another": func(w *world) string {
			of, t := w.any(func(of id, t *thing) bool { return of.Resource != "parts" && w.isWith(of, t) })
			if t == nil {
				return ""
			}
			delete(w.objects, of)
			w.hasWebhook = false
			w.create(w.widgets, "in", fmt.Sprint("new-", w.version))
			w.hasWebhook = true
			return fmt.Sprint(of, " goes, and another one comes")
		},
	}
}

// alone annotates an object so that it may belong to another shard.
func alone(w *world) string {
	of, t := w.any(func(of id, t *thing) bool { return of.Resource != "parts" && w.isWith(of, t) })
	if t == nil {
		return ""
	}
	t.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: fmt.Sprint("key-", w.version)}
	return fmt.Sprint(of, " is annotated")
}

// hidden returns the harms that only a whole pass finds: each object is with a shard that takes part, but is not the right one.
func hidden() map[string]harm {
	shard := v1alpha1.LabelShard(ringName)
	return map[string]harm{
		"it is with another shard": func(w *world) string {
			of, t := w.any(w.isWith)
			others := slices.DeleteFunc(w.shardNames(), func(name string) bool { return t == nil || name == w.placement(t).Shard })
			if len(others) == 0 {
				return ""
			}
			w.tag(t, map[string]string{shard: others[0]})
			t.been[others[0]] = true
			return fmt.Sprint(of, " is given to ", others[0])
		},
		"it is to be together with others": alone,
		"a hand has asked for it, and it has gone elsewhere": func(w *world) string {
			done := alone(w)
			of, t := w.any(func(of id, _ *thing) bool { return strings.HasPrefix(done, fmt.Sprint(of, " is annotated")) })
			if t == nil {
				return ""
			}
			w.put(t, w.placement(t).Shard, true)
			return fmt.Sprint(of, " is annotated, and asked for")
		},
		"nothing controls it any more": func(w *world) string {
			of, t := w.any(func(of id, t *thing) bool { return of.Resource == "parts" && w.isWith(of, t) })
			if t == nil {
				return ""
			}
			t.OwnerReferences = nil
			return fmt.Sprint(of, " is left alone")
		},
		"another one controls it": func(w *world) string {
			of, t := w.any(func(of id, t *thing) bool { return of.Resource == "parts" && w.isWith(of, t) })
			_, owner := w.any(func(of id, t *thing) bool { return of.Resource == "nodes" && w.isWith(of, t) })
			if t == nil || owner == nil {
				return ""
			}
			t.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "x.io/v1", Kind: "Node", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
			}}
			return fmt.Sprint(of, " is adopted by ", owner.Name)
		},
		"it is labelled, and not of the ring": func(w *world) string {
			of, t := w.any(func(of id, t *thing) bool { return !w.isMember(of.namespace) && !w.isWith(of, t) })
			if t == nil || len(w.members) == 0 {
				return ""
			}
			w.tag(t, map[string]string{shard: w.shardNames()[0]})
			return fmt.Sprint(of, " is labelled")
		},
	}
}

// restful returns a world whose objects are with their shards, and whose passes are light.
func restful(t *rapid.T) (*world, *Passes) {
	w := newWorld(rapid.Uint64().Draw(t, "seed"))
	w.calm, w.linger = true, 0
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
	if err := w.run(p, 20*time.Minute, func() bool { return w.lights() > 0 }); err != nil {
		t.Fatalf("no look is light: %v\n%s", err, w.tail())
	}
	if left := w.misplaced(); len(left) > 0 {
		t.Fatalf("a light look has overlooked something:\n%s\n%s", strings.Join(left, "\n"), w.tail())
	}
	return w, p
}

// heals waits until all objects are with their shards, and passes are light again.
func (w *world) heals(t *rapid.T, p *Passes, within time.Duration) {
	var left []string
	if err := w.run(p, within, func() bool { left = w.misplaced(); return len(left) == 0 }); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, strings.Join(left, "\n"), w.tail())
	}
	lights := w.lights()
	if err := w.run(p, 10*time.Minute, func() bool { return w.lights() > lights }); err != nil {
		t.Fatalf("no look is light any more: %v\n%s", err, w.tail())
	}
	if len(w.wrong) > 0 {
		t.Fatalf("%s\n%s", strings.Join(w.wrong, "\n"), w.tail())
	}
}

// The next resync finds each object that visibly cannot be with its shard, even when it is light. The next whole pass finds every other
// misplaced object.
func TestLightLooksLeaveNothingForLongThatNoShardWorksOn(t *testing.T) {
	for claim, harms := range map[string]struct {
		of     map[string]harm
		within time.Duration // plus the time to move
	}{
		"what they can see, at the next resync": {visible(), 80 * time.Second},
		"the rest, at the twelfth at most":      {hidden(), 13 * time.Minute},
	} {
		t.Run(claim, func(t *testing.T) {
			found := map[string]bool{}
			rapid.Check(t, func(t *rapid.T) {
				w, p := restful(t)
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(harms.of))).Draw(t, "harm")
				done := harms.of[name](w)
				found[name] = found[name] || done != ""
				w.note("%s", done)
				w.heals(t, p, harms.within)
			})
			for name := range harms.of {
				if !found[name] {
					t.Errorf("of no object it was so that %s", name)
				}
			}
		})
	}
}

// A light pass costs the same for any number of objects.
func TestALightLookReadsNothingOfObjectsAtRest(t *testing.T) {
	read := func(objects int) int {
		w := newWorld(1)
		w.calm = true
		w.join("s-0")
		w.members["s-0"].hangs = false
		for i := range objects {
			w.create(w.nodes, "", fmt.Sprint("n-", i))
		}
		p := w.passes()
		if err := w.run(p, time.Hour, func() bool { return w.lights() > 0 }); err != nil {
			t.Fatal(err, w.tail())
		}
		w.read = 0
		lights := w.lights()
		if err := w.run(p, time.Hour, func() bool { return w.lights() > lights }); err != nil {
			t.Fatal(err, w.tail())
		}
		return w.read
	}
	if few, many := read(10), read(400); few != many || few > 10 {
		t.Errorf("it reads %d objects of 10, and %d of 400", few, many)
	}
}

// Where an API server rejects the selector of a light pass, or does not return the number of objects, the pass is whole.
func TestALookThatCannotBeLightIsWhole(t *testing.T) {
	for claim, refuse := range map[string]func(*metav1.PartialObjectMetadataList, metav1.ListOptions) error{
		"the selector is not taken": func(_ *metav1.PartialObjectMetadataList, options metav1.ListOptions) error {
			if options.LabelSelector != "" {
				return apierrors.NewRequestEntityTooLargeError("too long")
			}
			return nil
		},
		"the number is not told": func(list *metav1.PartialObjectMetadataList, _ metav1.ListOptions) error {
			list.RemainingItemCount = nil
			return nil
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(1)
			w.calm, w.linger = true, 0
			w.join("s-0")
			for i := range 30 {
				w.create(w.widgets, "in", fmt.Sprint("w-", i))
			}
			p := w.passes()
			if err := w.run(p, time.Hour, func() bool { return w.lights() > 0 }); err != nil {
				t.Fatal(err, w.tail())
			}
			lights, done := w.lights(), sum(w.metrics, "breakwater_ring_passes_total", ringName, passDone)
			w.refuse = refuse
			if err := w.run(p, time.Hour, func() bool { return sum(w.metrics, "breakwater_ring_passes_total", ringName, passDone) > done+1 }); err != nil {
				t.Fatal(err, w.tail())
			}
			if n := sum(w.metrics, "breakwater_ring_passes_total", ringName, passFailed); n > 0 || w.lights() > lights {
				t.Errorf("%v passes have failed, and %v were light", n, w.lights()-lights)
			}
		})
	}
}

// A world's counts are those of its last whole pass, and deviate by at most one in 20.
func TestCountsAreNeverFarOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, p := restful(t)
		for i := range rapid.IntRange(1, 100).Draw(t, "more") {
			w.create(w.nodes, "", fmt.Sprint("more-", i))
		}
		w.heals(t, p, 2*time.Minute)
		want := int64(0)
		for of := range w.objects {
			if of.Resource != "parts" && w.isMember(of.namespace) {
				want++
			}
		}
		if got := p.findings.get(ringName).count.assigned; 20*(want-got) > want || got > want {
			t.Fatalf("%d objects are counted of %d\n%s", got, want, w.tail())
		}
	})
}
