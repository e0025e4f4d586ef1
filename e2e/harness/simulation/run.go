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

// convergenceTime is how long it may take from the end of all faults until every status is true: a lease, a list, the admission deadline and a
// few retries.
const convergenceTime = 3 * time.Minute

// maxReleaseTime is how long reservations may last in a calm. It is less than the admission deadline, because the webhook releases a removal
// that one protector denies at the other protectors.
const maxReleaseTime = 10 * time.Second

// maxBudgetDelay is how long it may take until budget that a status shows is usable: a webhook's watch lags.
const maxBudgetDelay = 5 * time.Second

// Run runs a scenario. Call it within a bubble of testing/synctest.
func Run(s Scenario, scheme *runtime.Scheme, trace *Trace) Result {
	rand.Seed(int64(s.Seed)) //nolint:staticcheck // the jitter of client-go is drawn from there
	sim := newSimulator(s, scheme, trace)
	sim.populate()
	sim.startProcesses()
	if err := sim.waitUntilCounted(time.Minute); err != nil && s.Storm.Weather.Lose == 0 {
		sim.judge.fail("not counted at the beginning: %v", err)
	}
	for _, c := range sim.workers {
		sim.judge.history.cells[c.name].countedVersion = c.store.Version()
	}
	for _, c := range sim.cores {
		c.countedVersion = c.store.Version()
	}
	began := time.Now()
	sim.judge.liveness.stormStart = began
	for n, step := range s.Steps {
		time.Sleep(time.Until(began.Add(step.At)))
		sim.executeStep(n, step)
	}
	time.Sleep(time.Until(began.Add(stormTime)))
	sim.calmDown()
	if err := sim.createCells(); err != nil {
		sim.judge.fail("cannot recreate a Cell %v", err)
	}
	sim.recreateForgottenProtectors()
	sim.checkAbandoned()
	sim.checkLiveness()
	sim.stopProcesses()
	return Result{Failures: sim.judge.report.failures, Counts: sim.judge.report.counts}
}

// calmDown ends the network faults and waits until all delayed tasks have ended.
func (sim *simulator) calmDown() {
	sim.trace.add("the storm is over")
	sim.storm = Storm{}
	sim.tasks.Wait()
	// Requests that are sent at this instant still meet the faults.
	time.Sleep(time.Microsecond)
	for _, p := range sim.allProcesses() {
		p.skew.Store(0)
		p.forEachLink(func(l *apiserver.Link) { l.SetWeather(apiserver.Weather{}) })
	}
}

// checkLiveness checks the second half of the promise: existing budget is usable, and not one pod more.
func (sim *simulator) checkLiveness() {
	if err := sim.waitUntil(convergenceTime+sim.scenario.releaseTime(), sim.calmProblem); err != nil {
		sim.judge.fail("the status does not match the pods %v", err)
		return
	}
	if err := sim.confirmHeldDecreases(); err != nil {
		sim.judge.fail("decreases held after a cascade were confirmed but not released %v", err)
		return
	}
	for round := range 3 {
		sim.removeBurst(round)
		if err := sim.waitUntil(maxReleaseTime, sim.calmProblem); err != nil {
			sim.judge.fail("reservations remain %s after removals that no webhook denied and no request delayed: %v", maxReleaseTime, err)
			return
		}
	}
	for again := true; again; {
		again = false
		for _, c := range sim.workers {
			for _, pod := range c.pods() {
				if sim.tryRemoval(c, pod) {
					again = true
				}
				if len(sim.judge.report.failures) > 0 {
					return
				}
			}
		}
	}
}

// removeBurst requests the removal of some pods of all cells at once. It uses a grace period, so that each removal is reviewed once: a second
// review may reach a replica that has not seen the first reservation.
func (sim *simulator) removeBurst(round int) {
	var asked sync.WaitGroup
	for _, c := range sim.workers {
		for i, pod := range c.pods() {
			if i%3 == round {
				asked.Go(func() {
					sim.executeRemoval(c, &removal{id: fmt.Sprintf("burst-%d-%s", round, pod.Name), pod: client.ObjectKeyFromObject(pod), grace: time.Second})
				})
			}
		}
	}
	asked.Wait()
}

// tryRemoval removes a pod if the removal is legal, and reports whether it was. It records a failure when the answer is wrong.
func (sim *simulator) tryRemoval(c *clusterState, pod *corev1.Pod) bool {
	legal := sim.refusalReason(c, pod.Name)
	sim.mu.Lock()
	sim.serial++
	id := fmt.Sprintf("calm-%d", sim.serial)
	sim.mu.Unlock()
	result := sim.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	for deadline := time.Now().Add(maxBudgetDelay); legal == "" && result != "removed" && time.Now().Before(deadline); {
		time.Sleep(500 * time.Millisecond)
		result = sim.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	}
	if removed := result == "removed"; removed != (legal == "") {
		sim.judge.fail("after the storm, the removal of %s ended with %s, want it admitted unless %q", pod.Name, result, legal)
		return false
	}
	if err := sim.waitUntil(convergenceTime, sim.calmProblem); err != nil {
		sim.judge.fail("after the removal of %s following the storm, the status does not match the pods %v", pod.Name, err)
	}
	return legal == ""
}

// refusalReason returns why a removal must be refused, or "" if it must be admitted.
func (sim *simulator) refusalReason(c *clusterState, pod string) string {
	line := sim.judge.history.existingPod(c.name, pod)
	if metav1.HasAnnotation(line.current().pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		return ""
	}
	for _, key := range sim.judge.history.sortedProtectors() {
		p := sim.judge.history.protectors[key]
		if !line.current().isCharged(p, time.Now()) {
			continue
		}
		available := 0
		for _, t := range sim.judge.history.cells {
			available += t.available(p, time.Now())
		}
		if floor := floorOf(p.stored); floor > 0 && available <= floor {
			return fmt.Sprintf("protector %s has %d available and a floor of %d", p.name(), available, floor)
		}
		if problem := sim.judge.history.intolerableLoss(p, c.name); problem != "" {
			return problem
		}
	}
	return ""
}
