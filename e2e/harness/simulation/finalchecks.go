package simulation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// finalChecks check the second half of the promise when all faults have ended: what must succeed then succeeds, and nothing else.
type finalChecks struct {
	env         *environment
	clients     *clients
	sources     *sources
	convergence *convergence
}

// checkLiveness checks the second half of the promise: existing budget is usable, and not one pod more.
func (fc *finalChecks) checkLiveness() {
	if slices.ContainsFunc(fc.env.scenario.Steps, func(s Step) bool { return s.What == FreezeAggregator }) {
		time.Sleep(recoveryTime) // it may lead for a moment when it continues, and then follows the changes that it missed
	}
	if err := waitUntil(convergenceTime+fc.env.scenario.releaseTime(), fc.convergence.calmProblem); err != nil {
		fc.env.judge.fail("the status does not match the pods %v", err)
		return
	}
	if err := fc.confirmHeldDecreases(); err != nil {
		fc.env.judge.fail("decreases held after a cascade were confirmed but not released %v", err)
		return
	}
	for round := range 3 {
		fc.removeBurst(round)
		if err := waitUntil(maxReleaseTime, fc.convergence.calmProblem); err != nil {
			fc.env.judge.fail("reservations remain %s after removals that no webhook denied and no request delayed: %v", maxReleaseTime, err)
			return
		}
	}
	for again := true; again; {
		again = false
		for _, c := range fc.env.workers {
			for _, pod := range c.pods() {
				if fc.tryRemoval(c, pod) {
					again = true
				}
				if fc.env.judge.hasFailed() {
					return
				}
			}
		}
	}
}

// confirmHeldDecreases confirms at the end every decrease that is still held. It waits until the decreases are released and the namespace is
// deleted.
func (fc *finalChecks) confirmHeldDecreases() error {
	if len(fc.env.scenario.Brake.Sources) == 0 {
		return nil
	}
	for _, name := range []string{namespace, deletableNamespace} {
		fc.sources.updateObject(apiserver.Namespaces, types.NamespacedName{Name: name}, setConfirmation("true"))
	}
	return waitUntil(convergenceTime, func() string {
		space, err := fc.env.cores[0].store.Get(apiserver.Namespaces, types.NamespacedName{Name: deletableNamespace})
		if err == nil && space.GetDeletionTimestamp() != nil {
			return "namespace " + deletableNamespace + " is still being deleted"
		}
		return fc.convergence.calmProblem()
	})
}

// removeBurst requests the removal of some pods of all cells at once. It uses a grace period, so that each removal is reviewed once: a second
// review may reach a replica that has not seen the first reservation.
func (fc *finalChecks) removeBurst(round int) {
	var asked sync.WaitGroup
	for _, c := range fc.env.workers {
		for i, pod := range c.pods() {
			if i%3 == round {
				asked.Go(func() {
					fc.clients.executeRemoval(c, &removal{id: fmt.Sprintf("burst-%d-%s", round, pod.Name), pod: client.ObjectKeyFromObject(pod), grace: time.Second})
				})
			}
		}
	}
	asked.Wait()
}

// tryRemoval removes a pod if the removal is legal, and reports whether it was. It records a failure when the answer is wrong.
func (fc *finalChecks) tryRemoval(c *clusterState, pod *corev1.Pod) bool {
	legal := fc.env.judge.refusalReason(c.name, pod.Name)
	id := fmt.Sprintf("calm-%d", fc.env.nextSerial())
	result := fc.clients.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	for deadline := time.Now().Add(maxBudgetDelay); legal == "" && result != "removed" && time.Now().Before(deadline); {
		time.Sleep(500 * time.Millisecond)
		result = fc.clients.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
	}
	if removed := result == "removed"; removed != (legal == "") {
		fc.env.judge.fail("after the storm, the removal of %s ended with %s, want it admitted unless %q", pod.Name, result, legal)
		return false
	}
	if err := waitUntil(convergenceTime, fc.convergence.calmProblem); err != nil {
		fc.env.judge.fail("after the removal of %s following the storm, the status does not match the pods %v", pod.Name, err)
	}
	return legal == ""
}

// refusalReason returns why a removal must be refused, or "" if it must be admitted.
func (j *judge) refusalReason(cell, pod string) string {
	line := j.history.existingPod(cell, pod)
	if metav1.HasAnnotation(line.current().pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		return ""
	}
	for _, key := range j.history.sortedProtectors() {
		p := j.history.protectors[key]
		if !line.current().isCharged(p, time.Now()) {
			continue
		}
		available := 0
		for _, t := range j.history.cells {
			available += t.available(p, time.Now())
		}
		if floor := floorOf(p.stored); floor > 0 && available <= floor {
			return fmt.Sprintf("protector %s has %d available and a floor of %d", p.name(), available, floor)
		}
		if problem := j.history.intolerableLoss(p, cell); problem != "" {
			return problem
		}
	}
	return ""
}
