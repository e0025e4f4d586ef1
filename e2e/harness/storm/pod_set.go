package storm

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

// podSet keeps the pods of one cell as its stream last showed them, and converts observations into changes. Its times are wall clock
// times, as in the pods.
type podSet struct {
	cell            Cell
	minReadySeconds int32
	pods            map[types.UID]*podState
	// living holds the pods whose deletion has not begun, in no order, so that a random one is found at once.
	living []types.UID
}

type podState struct {
	pod       Pod
	facts     podhealth.Facts
	available bool
	index     int // in living; -1 if it is not in living
}

// change is an event without its time.
type change struct {
	change Change
	pod    string
}

func newPodSet(cell Cell, minReadySeconds int32) *podSet {
	return &podSet{cell: cell, minReadySeconds: minReadySeconds, pods: map[types.UID]*podState{}}
}

// update records the newest state of a pod.
func (c *podSet) update(pod *corev1.Pod, now time.Time) []change {
	r, known := c.pods[pod.UID]
	if !known {
		r = &podState{pod: podOf(c.cell, pod), index: len(c.living)}
		c.pods[pod.UID] = r
		c.living = append(c.living, pod.UID)
	}
	r.facts = podhealth.FactsOf(pod)
	if r.facts.Terminating() {
		c.removeLiving(r)
	} else {
		c.addLiving(r)
	}
	return c.recompute(r, now)
}

// remove records that a pod does not exist any more.
func (c *podSet) remove(uid types.UID) []change {
	r, known := c.pods[uid]
	if !known {
		return nil
	}
	c.removeLiving(r)
	delete(c.pods, uid)
	if !r.available {
		return nil
	}
	return []change{{change: Removed, pod: r.pod.Name}}
}

// replace records all pods at once. A pod that is missing from the list was deleted. The order of the changes since the last list is
// unknown, so gains come first: then no removal looks like a breach that may not have been one.
func (c *podSet) replace(pods []corev1.Pod, now time.Time) []change {
	var gains, losses []change
	present := make(map[types.UID]bool, len(pods))
	sort := func(changes []change) {
		for _, change := range changes {
			if change.change == Gained {
				gains = append(gains, change)
			} else {
				losses = append(losses, change)
			}
		}
	}
	for i := range pods {
		present[pods[i].UID] = true
		sort(c.update(&pods[i], now))
	}
	for uid := range c.pods {
		if !present[uid] {
			sort(c.remove(uid))
		}
	}
	return append(gains, losses...)
}

// refresh checks the pods whose availability changes by time and without an event.
func (c *podSet) refresh(now time.Time) []change {
	var changes []change
	for _, r := range c.pods {
		changes = append(changes, c.recompute(r, now)...)
	}
	return changes
}

// nextRefresh returns when the next call of tick is due.
func (c *podSet) nextRefresh(now time.Time) (at time.Time, ok bool) {
	if c.minReadySeconds == 0 {
		return at, false
	}
	for _, r := range c.pods {
		due := r.facts.At(c.minReadySeconds, now).AvailableAt
		if !due.IsZero() && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

func (c *podSet) available() int {
	n := 0
	for _, r := range c.pods {
		if r.available {
			n++
		}
	}
	return n
}

// asPod returns the pod with its present availability.
func (r *podState) asPod() Pod {
	pod := r.pod
	pod.Available = r.available
	return pod
}

func (c *podSet) recompute(r *podState, now time.Time) []change {
	before := r.available
	r.available = r.facts.At(c.minReadySeconds, now).Available
	switch {
	case before == r.available:
		return nil
	case r.available:
		return []change{{change: Gained, pod: r.pod.Name}}
	case r.facts.Terminating():
		return []change{{change: Removed, pod: r.pod.Name}}
	default:
		return []change{{change: Dropped, pod: r.pod.Name}}
	}
}

// removeLiving removes a pod from living.
func (c *podSet) removeLiving(r *podState) {
	if r.index < 0 {
		return
	}
	last := len(c.living) - 1
	c.living[r.index] = c.living[last]
	c.pods[c.living[r.index]].index = r.index
	c.living = c.living[:last]
	r.index = -1
}

// addLiving puts a pod back into living. Only a cell that was restored from a backup takes a deletion back.
func (c *podSet) addLiving(r *podState) {
	if r.index >= 0 {
		return
	}
	r.index = len(c.living)
	c.living = append(c.living, r.pod.UID)
}

// randomPod returns a random living pod of all censuses. Each pod has the same chance.
func randomPod(censuses []*podSet, random *rand.Rand) (Pod, bool) {
	total := 0
	for _, c := range censuses {
		total += len(c.living)
	}
	if total == 0 {
		return Pod{}, false
	}
	n := random.IntN(total)
	for _, c := range censuses {
		if n < len(c.living) {
			return c.pods[c.living[n]].asPod(), true
		}
		n -= len(c.living)
	}
	return Pod{}, false
}
