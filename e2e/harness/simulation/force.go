package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// In a sixth of the seeds, users annotate pods with breakwater.dev/force-delete and remove them below the floor. Such a removal is
// reserved like any other, so that each later decision accounts for it. While the core is unreachable it is not reserved, and excuses the
// decisions that were made without it.

// forceStream is the random stream of removals by force. It was chosen so that it changes no seed that tests, mutants or docs name.
const forceStream = 0x666f7263002c

// forceRemoval annotates a pod and removes it.
func (cs *clients) forceRemoval(n int, s Step) {
	c := cs.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	_, _ = c.store.Update("pods", client.ObjectKeyFromObject(pod), "", "", func(o client.Object) error {
		annotations := copyOf(o.GetAnnotations())
		annotations[v1alpha1.AnnotationForceDelete] = "true"
		o.SetAnnotations(annotations)
		return nil
	})
	r := cs.newRemoval(fmt.Sprint(n), pod, s)
	r.evict = s.N%2 == 1
	cs.env.runAfter(0, func() { cs.executeRemoval(c, r) })
}

// isForced reports whether a pod may have been reviewed with the force-delete annotation. A restore may have removed the annotation since.
func (t *cellHistory) isForced(hash quota.UIDHash) bool { return t.forcedPods[hash] }

// recordForce records whether a pod has the force-delete annotation.
func (t *cellHistory) recordForce(pod *corev1.Pod) {
	if metav1.HasAnnotation(pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		t.forcedPods[quota.HashUID(pod.UID)] = true
	}
}

// overriddenDenial returns the denial that an answer overrode by force; empty if it overrode none.
func overriddenDenial(answer removals.Answer) removals.VerdictReason {
	if answer.Verdict != removals.VerdictForced {
		return ""
	}
	return answer.Overridden.Verdict
}

// isPendingForcedReservation reports whether a removal by force may be reserved later, because its webhook got no answer from the core. A removal that a
// protector denies for lack of budget has its reservation. If several protectors cover the pod, the answer names only one.
func (h *clusterHistory) isPendingForcedReservation(cell string, line *podHistory, overrode removals.VerdictReason) bool {
	if overrode == "" || !h.cells[cell].isForced(quota.HashUID(line.uid)) {
		return false
	}
	covering := 0
	for _, w := range h.protectors {
		if w.covers(line.current().pod) {
			covering++
		}
	}
	return covering > 1 || !isLackOfBudget(overrode)
}

// countForcedReservations counts the new reservations of a write for pods that are removed by force. The order of the decisions in one write is unknown,
// so that the others may have been decided without these.
func (h *clusterHistory) countForcedReservations(e *apiserver.Event) int {
	stored, _ := e.New.(*v1alpha1.PodProtector)
	old, _ := e.Old.(*v1alpha1.PodProtector)
	n := 0
	for i := range stored.Status.Cells {
		cell, before := &stored.Status.Cells[i], &v1alpha1.PodProtectorCell{}
		if old != nil {
			before = cmp.Or(quota.CellOf(old, cell.CellID), before)
		}
		n += h.countForcedReservationsOfCell(cell, before)
	}
	return n
}

// countForcedReservationsOfCell counts those of a cell.
func (h *clusterHistory) countForcedReservationsOfCell(cell, before *v1alpha1.PodProtectorCell) int {
	isReservedBefore, n := reservationHashes(&before.AdmissionHistory), 0
	for hash := range reservationHashes(&cell.AdmissionHistory) {
		if !isReservedBefore[hash] && h.cells[cell.CellID].isForced(hash) {
			n++
		}
	}
	return n
}

func drawForcedRemovals(s *Scenario, r *rand.Rand) {
	if r.IntN(6) == 0 {
		drawForceBursts(s, r)
	}
}

// drawForceBursts adds bursts of removals, some of them by force.
func drawForceBursts(s *Scenario, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 1 + r.IntN(3) {
			step := Step{
				At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: Force, Cell: r.IntN(s.Workers), Who: r.IntN(16), N: r.IntN(2),
				For: time.Second, RefusedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 4)
			s.Steps = append(s.Steps, step)
		}
		for range 2 + r.IntN(8) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(6000)-1000)*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)], Cell: cell,
				Who: r.IntN(16), For: time.Second,
			})
		}
	}
}
