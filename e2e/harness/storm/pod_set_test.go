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

func TestPodSet(t *testing.T) {
	gained, dropped, removed := change{Gained, "a"}, change{Dropped, "a"}, change{Removed, "a"}
	for claim, c := range map[string]struct {
		tell func(*podSet) []change
		want []change
	}{
		"a ready pod is a gain":          {func(c *podSet) []change { return c.update(ready("a"), noon) }, []change{gained}},
		"a ready pod again is no change": {func(c *podSet) []change { c.update(ready("a"), noon); return c.update(ready("a"), noon) }, nil},
		"an unready pod is no change":    {func(c *podSet) []change { return c.update(unready(ready("a")), noon) }, nil},
		"becoming unready is a drop":     {func(c *podSet) []change { c.update(ready("a"), noon); return c.update(unready(ready("a")), noon) }, []change{dropped}},
		"finishing is a drop":            {func(c *podSet) []change { c.update(ready("a"), noon); return c.update(finished(ready("a")), noon) }, []change{dropped}},
		"terminating is a removal":       {func(c *podSet) []change { c.update(ready("a"), noon); return c.update(terminating(ready("a")), noon) }, []change{removed}},
		"terminating while becoming unready is a removal": {func(c *podSet) []change {
			c.update(ready("a"), noon)
			return c.update(terminating(unready(ready("a"))), noon)
		}, []change{removed}},
		"a deletion is a removal": {func(c *podSet) []change { c.update(ready("a"), noon); return c.remove("a") }, []change{removed}},
		"a restored pod is a gain": {func(c *podSet) []change {
			c.update(ready("a"), noon)
			c.update(terminating(ready("a")), noon)
			changes := c.update(ready("a"), noon)
			if pod, ok := randomPod([]*podSet{c}, rand.New(rand.NewPCG(1, 1))); !ok || pod.Name != "a" {
				return nil
			}
			return changes
		}, []change{gained}},
		"a deletion after termination counts once": {func(c *podSet) []change {
			c.update(ready("a"), noon)
			c.update(terminating(ready("a")), noon)
			return c.remove("a")
		}, nil},
		"deletion of an unready pod is no change": {func(c *podSet) []change { c.update(unready(ready("a")), noon); return c.remove("a") }, nil},
		"deletion of an unknown pod is no change": {func(c *podSet) []change { return c.remove("a") }, nil},
		"pods missing from a list were removed, after its gains": {func(c *podSet) []change {
			c.update(ready("a"), noon)
			return c.replace([]corev1.Pod{*ready("b")}, noon)
		}, []change{{Gained, "b"}, removed}},
	} {
		t.Run(claim, func(t *testing.T) {
			got := c.tell(newPodSet(Cell{}, 0))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestPodSetReportsWhenAPodBecomesAvailable(t *testing.T) {
	c := newPodSet(Cell{}, 10)
	if got := c.update(ready("a"), noon.Add(time.Second)); got != nil {
		t.Errorf("after one second of ten: %v", got)
	}
	at, ok := c.nextRefresh(noon.Add(time.Second))
	if want := noon.Add(10 * time.Second); !ok || !at.Equal(want) {
		t.Errorf("next is %v, %t, want %v", at, ok, want)
	}
	if got := c.refresh(at); len(got) != 1 || got[0].change != Gained {
		t.Errorf("after ten seconds: %v", got)
	}
	if _, ok := c.nextRefresh(at); ok {
		t.Error("nextRefresh() is due although all pods are available")
	}
}

// The census keeps the living pods in a slice and a position in each pod; this compares them with a plain set.
func TestRandomPodIsNotTerminating(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newPodSet(Cell{}, 0)
		living := map[string]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "pod")
			_, known := c.pods[types.UID(name)]
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if !known {
					c.update(ready(name), noon)
					living[name] = true
				}
			case 1:
				c.update(terminating(ready(name)), noon)
				delete(living, name)
			case 2:
				c.remove(types.UID(name))
				delete(living, name)
			}
		}
		if len(c.living) != len(living) {
			t.Fatalf("%d pods are not terminating, the set has %v", len(living), c.living)
		}
		picked := map[string]bool{}
		random := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			pod, ok := randomPod([]*podSet{newPodSet(Cell{}, 0), c}, random)
			if ok != (len(living) > 0) || (ok && !living[pod.Name]) {
				t.Fatalf("picked %q, %t; living are %v", pod.Name, ok, living)
			}
			picked[pod.Name] = picked[pod.Name] || ok
		}
		delete(picked, "")
		if len(picked) != len(living) {
			t.Fatalf("200 random picks returned %v of %v", picked, living)
		}
	})
}
