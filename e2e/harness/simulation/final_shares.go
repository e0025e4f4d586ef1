package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// shareChecks check scenarios with shares when all faults have ended: all cells have the shares that they should have, and each removal that
// leaves the floor of all cells together is admitted in any cell, after its share has moved. No other is.
type shareChecks struct {
	env         *environment
	clients     *clients
	convergence *shareConvergence
}

// shareConvergence reports whether the shares that the clusters store have converged on the truth. It changes nothing.
type shareConvergence struct {
	judge          *judge
	scenario       Scenario
	cores, workers []*clusterView
}

// maxShareDelay is how long it may take in a calm until a cell can use the budget of another cell.
const maxShareDelay = 30 * time.Second

// closedShare returns what is missing until all cells decide on the shares that they should have; "" if nothing.
func (sc *shareConvergence) closedShare() string {
	if existing := len(sc.protectors()); existing < len(sc.scenario.Protectors) {
		return fmt.Sprintf("%d protectors exist, want %d", existing, len(sc.scenario.Protectors))
	}
	for _, p := range sc.protectors() {
		for _, worker := range sc.workers {
			entry, share := quota.CellOf(p.PodProtector, worker.name), sc.shareOf(worker, p)
			wants := p.Spec.CoreOutage == v1alpha1.CoreOutageLocalShare && !sc.known(p).toleratesDomainLoss()
			name := fmt.Sprintf("protector %s in %s", sc.known(p).name(), worker.name)
			switch {
			case entry == nil || !isCounted(p.PodProtector, &entry.Aggregation):
				return name + " is not counted"
			case wants && (entry.Share == nil || share == nil || share.Spec.ShareOf.Closed):
				return name + " has no open share"
			case !wants && (entry.Share != nil || share != nil):
				return name + " has a share"
			case wants && (len(share.Status.Cells) == 0 || !isCounted(share, &share.Status.Cells[0].Aggregation)):
				return name + " has a share that is not counted"
			}
		}
	}
	return ""
}

// coreProtector is a protector of a core.
type coreProtector struct {
	*v1alpha1.PodProtector
	core *clusterView
}

// protectors returns the protectors of all cores.
func (sc *shareConvergence) protectors() (all []coreProtector) {
	for _, core := range sc.cores {
		for _, p := range core.protectors() {
			all = append(all, coreProtector{p, core})
		}
	}
	return all
}

// shareOf returns the share of a protector in a cell; nil if there is none.
func (sc *shareConvergence) shareOf(worker *clusterView, p coreProtector) *v1alpha1.PodProtector {
	for _, share := range worker.protectors() {
		if of := share.Spec.ShareOf; of != nil && of.Core == p.core.name && of.Name == p.Name && of.UID == string(p.UID) {
			return share
		}
	}
	return nil
}

// calmProblem returns what has not converged; "" if all has.
func (sc *shareConvergence) calmProblem() string {
	if problem := sc.closedShare(); problem != "" {
		return problem
	}
	for _, p := range sc.protectors() {
		if problem := sc.keptProblem(p); problem != "" {
			return problem
		}
		for _, worker := range sc.workers {
			if problem := unguarded(&sc.scenario.Scope, worker, p.PodProtector); problem != "" {
				return problem
			}
			decides, in := p.PodProtector, p.core
			if share := sc.shareOf(worker, p); share != nil {
				decides, in = share, worker
			}
			cell := quota.CellOf(decides, worker.name)
			if term := parseVersion(cell.Aggregation.TermVersion); term < in.restoredVersion || cell.Aggregation.Void {
				return fmt.Sprintf("protector %s has counts in %s of a leadership that began at %d, restored at %d", decides.Name, in.name, term, in.restoredVersion)
			}
			counted, want := int(cell.Aggregation.CountedReplicas), sc.judge.history.cells[worker.name].available(sc.known(p).watchedProtector, time.Now())
			recorded := int(quota.CellOf(p.PodProtector, worker.name).Aggregation.CountedReplicas)
			if open := countOpenReservations(&cell.AdmissionHistory); counted != want || recorded != want || open > 0 {
				return fmt.Sprintf("protector %s has %d pods of %s in %s with %d reservations, want %d pods", p.Name, counted, worker.name, decides.Name, open, want)
			}
		}
	}
	return ""
}

// keptProblem returns "" if all shares keep the floor, or all pods if there are fewer: they make up for pods that have died elsewhere (rule S4).
func (sc *shareConvergence) keptProblem(p coreProtector) string {
	kept, all := 0, 0
	for _, worker := range sc.workers {
		pods := sc.judge.history.cells[worker.name].available(sc.known(p).watchedProtector, time.Now())
		all += pods
		if share := sc.shareOf(worker, p); share != nil {
			pods = min(pods, share.Spec.MinAvailable.IntValue())
		}
		kept += pods
	}
	if want := min(floorOf(p.PodProtector), all); kept < want {
		return fmt.Sprintf("protector %s keeps %d pods, want %d", sc.known(p).name(), kept, want)
	}
	return ""
}

func (sc *shareConvergence) known(p coreProtector) *sharedProtector {
	return sc.judge.shares.protectors[protectorKey{p.core.name, client.ObjectKeyFromObject(p)}]
}

// hasBudget reports whether one more removal in a cell leaves the floor of each protector.
func (sc *shareConvergence) hasBudget(cell *clusterView) bool {
	for _, p := range sc.protectors() {
		known, floor := sc.known(p), floorOf(p.PodProtector)
		if sc.judge.shares.available(known) <= floor && floor > 0 || sc.judge.history.intolerableLoss(known.watchedProtector, cell.name) != "" {
			return false
		}
	}
	return true
}

// checkBudget removes all pods that may be removed, those of one cell first, and checks that no other can be.
func (sc *shareChecks) checkBudget() {
	if err := waitUntil(convergenceTime, sc.convergence.calmProblem); err != nil {
		sc.env.judge.fail("the shares do not match the pods %v", err)
		return
	}
	workers := sc.env.workers
	for i := range workers {
		c := workers[(int(sc.env.scenario.Seed)+i)%len(workers)]
		for pod := sc.readyPod(c); pod != nil && sc.convergence.hasBudget(c.judged); pod = sc.readyPod(c) {
			result := ""
			if err := waitUntil(maxShareDelay, func() string { result = sc.remove(c, pod); return map[bool]string{false: result}[result == "removed"] }); err != nil {
				sc.env.judge.fail("after the storm, a removal in %s that leaves the floor is not admitted: %v", c.name, err)
				return
			}
		}
	}
	for _, c := range workers {
		for _, pod := range c.pods() {
			if isReadyPod(pod) && !isBreakGlass(pod) && !sc.convergence.hasBudget(c.judged) && sc.remove(c, pod) == "removed" {
				sc.env.judge.fail("after the storm, a removal in %s that breaks the floor is admitted", c.name)
			}
		}
	}
}

func isReadyPod(pod *corev1.Pod) bool { return podState{pod: pod}.isReady() }

func isBreakGlass(pod *corev1.Pod) bool {
	return metav1.HasAnnotation(pod.ObjectMeta, v1alpha1.AnnotationForceDelete)
}

// readyPod returns a pod of a cell whose removal needs budget; nil if none is ready.
func (sc *shareChecks) readyPod(c *clusterState) *corev1.Pod {
	for _, pod := range c.pods() {
		if isReadyPod(pod) && !isBreakGlass(pod) {
			return pod
		}
	}
	return nil
}

func (sc *shareChecks) remove(c *clusterState, pod *corev1.Pod) string {
	id := fmt.Sprintf("calm-%d", sc.env.nextSerial())
	return sc.clients.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod)})
}
