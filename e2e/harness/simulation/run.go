package simulation

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Result is how a simulation ended.
type Result struct {
	Failures []string
	Counts   Counts
}

// NewScheme knows the kinds of the simulation. Making it takes long; simulations share it.
func NewScheme() *runtime.Scheme {
	// They remember when the last error was, and wait until that time comes round in the next simulation.
	utilruntime.ErrorHandlers = nil
	return clusters.Scheme()
}

// convergence is how long it may take from the end of all faults until the status is the truth: a lease, a list, the
// admission deadline and a few retries.
const convergence = 3 * time.Minute

// givenBack is how long reservations may last in a calm: less than the admission deadline, since what one protector
// refuses is given back to the others.
const givenBack = 10 * time.Second

// usableAfter is how long it may take until budget that a status shows is usable: a webhook's watch is behind.
const usableAfter = 5 * time.Second

// Run plays a scenario in the bubble of testing/synctest that it is called in.
func Run(s Scenario, scheme *runtime.Scheme, trace *Trace) Result {
	rand.Seed(int64(s.Seed)) //nolint:staticcheck // the jitter of client-go is drawn from there
	w := newWorld(s, scheme, trace)
	w.populate()
	w.startAll()
	if err := w.awaitCounted(time.Minute); err != nil && s.Storm.Weather.Lose == 0 {
		w.judge.fail("not counted at the beginning: %v", err)
	}
	for _, c := range w.workers {
		w.judge.cells[c.name].begin = c.store.Version()
	}
	for _, c := range w.cores {
		c.begin = c.store.Version()
	}
	began := time.Now()
	w.judge.liveness.began = began
	for n, step := range s.Steps {
		time.Sleep(time.Until(began.Add(step.At)))
		w.take(n, step)
	}
	time.Sleep(time.Until(began.Add(stormTime)))
	w.calmDown()
	if err := w.createCells(); err != nil {
		w.judge.fail("a Cell cannot be created again %v", err)
	}
	w.makeGood()
	w.abandon()
	w.live()
	w.stopAll()
	return Result{Failures: w.judge.failures, Counts: w.judge.counts}
}

// calmDown ends the weather and waits for what is still broken to be whole again.
func (w *world) calmDown() {
	w.trace.add("the storm is over")
	w.storm = Storm{}
	w.busy.Wait()
	// What was let go at this instant still goes in the bad weather.
	time.Sleep(time.Microsecond)
	for _, p := range w.everybody() {
		p.skew.Store(0)
		p.eachLink(func(l *apiserver.Link) { l.SetWeather(apiserver.Weather{}) })
	}
}

// live is the second half of the promise: when budget exists it is usable, and not one pod more.
func (w *world) live() {
	if err := w.await(convergence+w.scenario.releaseTime(), w.isCalm); err != nil {
		w.judge.fail("the status does not become the truth %v", err)
		return
	}
	if err := w.confirmHeld(); err != nil {
		w.judge.fail("what was held by a cascade is confirmed, and not released %v", err)
		return
	}
	for round := range 3 {
		w.burst(round)
		if err := w.await(givenBack, w.isCalm); err != nil {
			w.judge.fail("%s after removals in a calm, with nothing stuck or refused by others: %v", givenBack, err)
			return
		}
	}
	for again := true; again; {
		again = false
		for _, c := range w.workers {
			for _, pod := range c.pods() {
				if w.tryOne(c, pod) {
					again = true
				}
				if len(w.judge.failures) > 0 {
					return
				}
			}
		}
	}
}

// burst asks for the removal of some pods of all cells at once, with a grace period, so that each is reviewed once: a
// second review may meet a replica that has not heard of the first.
func (w *world) burst(round int) {
	var asked sync.WaitGroup
	for _, c := range w.workers {
		for i, pod := range c.pods() {
			if i%3 == round {
				asked.Go(func() {
					w.remove(c, &removal{id: fmt.Sprintf("burst-%d-%s", round, pod.Name), pod: client.ObjectKeyFromObject(pod), grace: time.Second})
				})
			}
		}
	}
	asked.Wait()
}

// tryOne removes a pod if it may be removed, and says whether it was. It fails when the answer is not the right one.
func (w *world) tryOne(c *clusterState, pod *corev1.Pod) bool {
	legal := w.isLegal(c, pod.Name)
	w.mu.Lock()
	w.serial++
	id := fmt.Sprintf("calm-%d", w.serial)
	w.mu.Unlock()
	word := w.remove(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	for deadline := time.Now().Add(usableAfter); legal == "" && word != "removed" && time.Now().Before(deadline); {
		time.Sleep(500 * time.Millisecond)
		word = w.remove(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	}
	if removed := word == "removed"; removed != (legal == "") {
		w.judge.fail("all is calm, and the removal of %s ends: %s; it is legal unless %q", pod.Name, word, legal)
		return false
	}
	if err := w.await(convergence, w.isCalm); err != nil {
		w.judge.fail("after the removal of %s in a calm the status does not become the truth %v", pod.Name, err)
	}
	return legal == ""
}

// isLegal says why a removal must be refused; "" when it must not.
func (w *world) isLegal(c *clusterState, pod string) string {
	line := w.judge.livingPod(c.name, pod)
	if metav1.HasAnnotation(line.now().pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		return ""
	}
	for _, key := range w.judge.sortedProtectors() {
		p := w.judge.protectors[key]
		if !line.now().charged(p, time.Now()) {
			continue
		}
		available := 0
		for _, t := range w.judge.cells {
			available += t.available(p, time.Now())
		}
		if floor := floorOf(p.stored); floor > 0 && available <= floor {
			return fmt.Sprintf("protector %s has %d available and a floor of %d", p.name(), available, floor)
		}
		if word := w.judge.fatalLoss(p, c.name); word != "" {
			return word
		}
	}
	return ""
}
