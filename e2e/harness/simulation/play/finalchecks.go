package play

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// finalChecks check the second half of the promise when all faults have ended: what must succeed then succeeds, and nothing else.
type finalChecks struct {
	env         *environment
	clients     *clients
	sources     *sources
	convergence *judge.Convergence
}

// checkLiveness checks the second half of the promise: existing budget is usable, and not one pod more.
func (fc *finalChecks) checkLiveness() {
	if slices.ContainsFunc(fc.env.scenario.Steps, func(s scenario.Step) bool { return s.What == scenario.FreezeAggregator }) {
		time.Sleep(judge.RecoveryTime) // it may lead for a moment when it continues, and then follows the changes that it missed
	}
	for _, c := range fc.env.workers { // a reservation of a removal that nothing waits for ends with the admission deadline only
		time.Sleep(scenario.WebhookTimeout - time.Since(time.Unix(0, c.unanswered.Load())))
	}
	if err := waitUntil(convergenceTime+fc.env.scenario.ReleaseTime(), fc.convergence.CalmProblem); err != nil {
		fc.env.judge.Fail("the status does not match the pods %v", err)
		return
	}
	if err := fc.confirmHeldDecreases(); err != nil {
		fc.env.judge.Fail("decreases held after a cascade were confirmed but not released %v", err)
		return
	}
	for round := range 3 {
		fc.removeBurst(round)
		if err := waitUntil(maxReleaseTime, fc.convergence.CalmProblem); err != nil {
			fc.env.judge.Fail("reservations remain %s after removals that no webhook denied and no request delayed: %v", maxReleaseTime, err)
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
				if fc.env.judge.HasFailed() {
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
	for _, name := range []string{scenario.Namespace, scenario.DeletableNamespace} {
		fc.sources.updateObject(apiserver.Namespaces, types.NamespacedName{Name: name}, scenario.SetConfirmation("true"))
	}
	return waitUntil(convergenceTime, func() string {
		space, err := fc.env.cores[0].store.Get(apiserver.Namespaces, types.NamespacedName{Name: scenario.DeletableNamespace})
		if err == nil && space.GetDeletionTimestamp() != nil {
			return "namespace " + scenario.DeletableNamespace + " is still being deleted"
		}
		return fc.convergence.CalmProblem()
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
					fc.clients.executeRemoval(c, &judge.Removal{ID: fmt.Sprintf("burst-%d-%s", round, pod.Name), Pod: client.ObjectKeyFromObject(pod), Grace: time.Second})
				})
			}
		}
	}
	asked.Wait()
}

// tryRemoval removes a pod if the removal is legal, and reports whether it was. It records a failure when the answer is wrong.
func (fc *finalChecks) tryRemoval(c *clusterState, pod *corev1.Pod) bool {
	legal := fc.env.judge.DenialReason(c.name, pod.Name)
	id := fmt.Sprintf("calm-%d", fc.env.nextSerial())
	result := fc.clients.executeRemoval(c, &judge.Removal{ID: id, Pod: client.ObjectKeyFromObject(pod)})
	for deadline := time.Now().Add(maxBudgetDelay); legal == "" && result != "removed" && time.Now().Before(deadline); {
		time.Sleep(500 * time.Millisecond)
		result = fc.clients.executeRemoval(c, &judge.Removal{ID: id, Pod: client.ObjectKeyFromObject(pod)})
	}
	if removed := result == "removed"; removed != (legal == "") {
		fc.env.judge.Fail("after the storm, the removal of %s ended with %s, want it admitted unless %q", pod.Name, result, legal)
		return false
	}
	if err := waitUntil(convergenceTime, fc.convergence.CalmProblem); err != nil {
		fc.env.judge.Fail("after the removal of %s following the storm, the status does not match the pods %v", pod.Name, err)
	}
	return legal == ""
}

// shareChecks check scenarios with shares when all faults have ended: all cells have the shares that they should have, and each removal that
// leaves the floor of all cells together is admitted in any cell, after its share has moved. No other is.
type shareChecks struct {
	env         *environment
	clients     *clients
	convergence *judge.ShareConvergence
}

// maxShareDelay is how long it may take in a calm until a cell can use the budget of another cell.
const maxShareDelay = 30 * time.Second

// checkBudget removes all pods that may be removed, those of one cell first, and checks that no other can be.
func (sc *shareChecks) checkBudget() {
	if err := waitUntil(convergenceTime, sc.convergence.CalmProblem); err != nil {
		sc.env.judge.Fail("the shares do not match the pods %v", err)
		return
	}
	workers := sc.env.workers
	for i := range workers {
		c := workers[(int(sc.env.scenario.Seed)+i)%len(workers)]
		for pod := sc.readyPod(c); pod != nil && sc.convergence.HasBudget(c.judged); pod = sc.readyPod(c) {
			result := ""
			if err := waitUntil(maxShareDelay, func() string { result = sc.remove(c, pod); return map[bool]string{false: result}[result == "removed"] }); err != nil {
				sc.env.judge.Fail("after the storm, a removal in %s that leaves the floor is not admitted: %v", c.name, err)
				return
			}
		}
	}
	for _, c := range workers {
		for _, pod := range c.pods() {
			if judge.IsReadyPod(pod) && !scenario.IsBreakGlass(pod) && !sc.convergence.HasBudget(c.judged) && sc.remove(c, pod) == "removed" {
				sc.env.judge.Fail("after the storm, a removal in %s that breaks the floor is admitted", c.name)
			}
		}
	}
}

// readyPod returns a pod of a cell whose removal needs budget; nil if none is ready.
func (sc *shareChecks) readyPod(c *clusterState) *corev1.Pod {
	for _, pod := range c.pods() {
		if judge.IsReadyPod(pod) && !scenario.IsBreakGlass(pod) {
			return pod
		}
	}
	return nil
}

func (sc *shareChecks) remove(c *clusterState, pod *corev1.Pod) string {
	id := fmt.Sprintf("calm-%d", sc.env.nextSerial())
	return sc.clients.executeRemoval(c, &judge.Removal{ID: id, Pod: client.ObjectKeyFromObject(pod)})
}
