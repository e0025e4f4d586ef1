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

// Result is the outcome of a simulation.
type Result struct {
	Failures []string
	Counts   Counts
}

// NewScheme returns the scheme with the kinds of the simulation. It is slow to build, so simulations share it.
func NewScheme() *runtime.Scheme {
	// The default handlers remember the time of the last error, and would wait until the virtual time of the next simulation reaches it.
	utilruntime.ErrorHandlers = nil
	return clusters.Scheme()
}

// convergence is how long it may take from the end of all faults until every status is true: a lease, a list, the admission deadline and a
// few retries.
const convergence = 3 * time.Minute

// givenBack is how long reservations may last in a calm. It is less than the admission deadline, because the webhook releases a removal
// that one protector denies at the other protectors.
const givenBack = 10 * time.Second

// usableAfter is how long it may take until budget that a status shows is usable: a webhook's watch lags.
const usableAfter = 5 * time.Second

// Run runs a scenario. Call it within a bubble of testing/synctest.
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

// calmDown ends the network faults and waits until all delayed tasks have ended.
func (w *world) calmDown() {
	w.trace.add("the storm is over")
	w.storm = Storm{}
	w.busy.Wait()
	// Requests that are sent at this instant still meet the faults.
	time.Sleep(time.Microsecond)
	for _, p := range w.everybody() {
		p.skew.Store(0)
		p.eachLink(func(l *apiserver.Link) { l.SetWeather(apiserver.Weather{}) })
	}
}

// live checks the second half of the promise: existing budget is usable, and not one pod more.
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

// burst requests the removal of some pods of all cells at once. It uses a grace period, so that each removal is reviewed once: a second
// review may reach a replica that has not seen the first reservation.
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

// tryOne removes a pod if the removal is legal, and reports whether it was. It records a failure when the answer is wrong.
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

// isLegal returns why a removal must be refused, or "" if it must be admitted.
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
