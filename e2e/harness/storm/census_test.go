package storm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ready returns a pod that has been ready since noon.
func ready(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon),
		}}},
	}
}

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{Time: noon}
	return pod
}

func unready(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	return pod
}

func finished(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodFailed
	return pod
}

func TestCensus(t *testing.T) {
	gained, dropped, removed := change{Gained, "a"}, change{Dropped, "a"}, change{Removed, "a"}
	for claim, c := range map[string]struct {
		tell func(*census) []change
		want []change
	}{
		"a ready pod is a gain":       {func(c *census) []change { return c.saw(ready("a"), noon) }, []change{gained}},
		"to see it again is none":     {func(c *census) []change { c.saw(ready("a"), noon); return c.saw(ready("a"), noon) }, nil},
		"an unready one is none":      {func(c *census) []change { return c.saw(unready(ready("a")), noon) }, nil},
		"to become unready is a drop": {func(c *census) []change { c.saw(ready("a"), noon); return c.saw(unready(ready("a")), noon) }, []change{dropped}},
		"to finish is a drop":         {func(c *census) []change { c.saw(ready("a"), noon); return c.saw(finished(ready("a")), noon) }, []change{dropped}},
		"to terminate is a removal":   {func(c *census) []change { c.saw(ready("a"), noon); return c.saw(terminating(ready("a")), noon) }, []change{removed}},
		"to terminate unready is a removal": {func(c *census) []change {
			c.saw(ready("a"), noon)
			return c.saw(terminating(unready(ready("a"))), noon)
		}, []change{removed}},
		"to vanish is a removal": {func(c *census) []change { c.saw(ready("a"), noon); return c.lost("a") }, []change{removed}},
		"to live again after that is a gain": {func(c *census) []change {
			c.saw(ready("a"), noon)
			c.saw(terminating(ready("a")), noon)
			changes := c.saw(ready("a"), noon)
			if pod, ok := pickFrom([]*census{c}, rand.New(rand.NewPCG(1, 1))); !ok || pod.Name != "a" {
				return nil
			}
			return changes
		}, []change{gained}},
		"to vanish after that counts once": {func(c *census) []change {
			c.saw(ready("a"), noon)
			c.saw(terminating(ready("a")), noon)
			return c.lost("a")
		}, nil},
		"to vanish unready is none":    {func(c *census) []change { c.saw(unready(ready("a")), noon); return c.lost("a") }, nil},
		"an unknown pod's end is none": {func(c *census) []change { return c.lost("a") }, nil},
		"what a list lacks was removed, after what it gained": {func(c *census) []change {
			c.saw(ready("a"), noon)
			return c.listed([]corev1.Pod{*ready("b")}, noon)
		}, []change{{Gained, "b"}, removed}},
	} {
		t.Run(claim, func(t *testing.T) {
			got := c.tell(newCensus(Cell{}, 0))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestCensusTellsWhenAPodBecomesAvailable(t *testing.T) {
	c := newCensus(Cell{}, 10)
	if got := c.saw(ready("a"), noon.Add(time.Second)); got != nil {
		t.Errorf("after one second of ten: %v", got)
	}
	at, ok := c.next(noon.Add(time.Second))
	if want := noon.Add(10 * time.Second); !ok || !at.Equal(want) {
		t.Errorf("next is %v, %t, want %v", at, ok, want)
	}
	if got := c.tick(at); len(got) != 1 || got[0].change != Gained {
		t.Errorf("after ten seconds: %v", got)
	}
	if _, ok := c.next(at); ok {
		t.Error("there is something to wait for when all pods are available")
	}
}

// The census keeps the living pods in a slice and a position in each pod; this compares them with a plain set.
func TestThePickIsAlwaysALivingPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCensus(Cell{}, 0)
		living := map[string]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "pod")
			_, known := c.pods[types.UID(name)]
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if !known {
					c.saw(ready(name), noon)
					living[name] = true
				}
			case 1:
				c.saw(terminating(ready(name)), noon)
				delete(living, name)
			case 2:
				c.lost(types.UID(name))
				delete(living, name)
			}
		}
		if len(c.living) != len(living) {
			t.Fatalf("%d pods live, the census has %v", len(living), c.living)
		}
		picked := map[string]bool{}
		random := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			pod, ok := pickFrom([]*census{newCensus(Cell{}, 0), c}, random)
			if ok != (len(living) > 0) || (ok && !living[pod.Name]) {
				t.Fatalf("picked %q, %t; living are %v", pod.Name, ok, living)
			}
			picked[pod.Name] = picked[pod.Name] || ok
		}
		delete(picked, "")
		if len(picked) != len(living) {
			t.Fatalf("200 picks met %v of %v", picked, living)
		}
	})
}
