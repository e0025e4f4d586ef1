package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// In a sixth of the seeds, clients change images of pods and resize them in place, and protectors guard that or do not. The API server
// stores the change. The kubelet sees it later and restarts the container, and the pod mostly becomes ready again. The judge treats the
// restart as the effect of a removal: an available pod becomes unavailable at that time. A protector that does not guard updates loses the
// pod without a charge.
//
// The judge checks each reservation of an update:
//
//   - It is exempt from the budget only while the snapshot shows the pod as not available.
//   - It ends when the pod was restarted, or no client can cause its restart any more, or the time for that has passed. In the last case
//     the restart is excused.

// updateStream is the random stream of updates. It was chosen so that it changes no seed that tests, mutants or docs name.
const updateStream = 0x7570647400b6

// updateTimeout is the updateTimeoutSeconds of the protectors.
const updateTimeout = 30 * time.Second

// container and companion are the containers of each pod that clients update.
const (
	container = "web"
	companion = "log"
)

// podUpdate is what an update of a pod changes, in one container.
type podUpdate struct {
	container string
	isResize  bool
}

func (c *podUpdate) operation() v1alpha1.Operation {
	if c.isResize {
		return v1alpha1.OperationResize
	}
	return v1alpha1.OperationUpdate
}

// changeOf returns what a step changes in pods; nil for all other steps.
func changeOf(s Step) *podUpdate {
	if s.What != UpdateImage && s.What != ResizePod {
		return nil
	}
	return &podUpdate{container: []string{container, companion}[s.N%2], isResize: s.What == ResizePod}
}

// addContainers gives a pod the containers that updates change.
func addContainers(p *corev1.Pod) {
	for _, name := range []string{container, companion} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: "1", ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	p.Status.ObservedGeneration = 1
}

// apply changes a pod as an API server does that stores an update.
func (c *podUpdate) apply(object client.Object) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	pod.Generation++
	for i := range pod.Spec.Containers {
		in := &pod.Spec.Containers[i]
		switch {
		case in.Name != c.container:
		case c.isResize:
			in.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(pod.Generation, resource.DecimalSI)}
		default:
			in.Image = fmt.Sprint(pod.Generation)
		}
	}
	return nil
}

func (c *podUpdate) applied(pod *corev1.Pod) *corev1.Pod {
	changed := pod.DeepCopy()
	_ = c.apply(changed)
	return changed
}

func restartsOf(pod *corev1.Pod, container string) int32 {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.RestartCount
		}
	}
	return 0
}

// guardsOperation reports whether an operation consumes budget. This is an independent implementation, not the code under test.
func (w *watchedProtector) guardsOperation(operation v1alpha1.Operation) bool {
	return slices.Contains(w.stored.Spec.Operations, operation)
}

// isRestartCharged reports whether a restart by an update is to be judged as a removal from a protector. A protector that does not guard
// updates loses the pod.
func (j *effectJudge) isRestartCharged(t *cellHistory, w *watchedProtector, r *removal, before podState, line *podHistory) bool {
	if w.guardsOperation(r.update.operation()) {
		isLost := !line.current().isAvailable(w, time.Now())
		if isLost && before.isAvailable(w, time.Now()) {
			j.report.counts.Restarts++
		}
		return isLost
	}
	t.losses = append(t.losses, loss{excuse: lossUnguarded, restores: t.restores, version: line.current().version, before: before, after: line.current(),
		protector: w})
	return false
}

// recordStoredUpdate records that an update is stored.
func (j *judge) recordStoredUpdate(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.stored = true
}

// accountedReservations returns the reservations that the counts account for: those of updates whose pods the counts show as not available.
func accountedReservations(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]bool {
	hashes := map[quota.UIDHash]bool{}
	for i := range h.Buckets {
		if b := &h.Buckets[i]; b.Accounted && b.PodUID != "" {
			hashes[quota.HashUID(b.PodUID)] = true
		}
	}
	return hashes
}

// countOpenReservations returns the number of reservations that count against the budget.
func countOpenReservations(h *v1alpha1.AdmissionHistory) int {
	return len(reservationHashes(h)) - len(accountedReservations(h))
}

// judgeAccounted checks that a pod whose reservation does not count against the budget is not counted as available either.
func (j *reservationJudge) judgeAccounted(w *watchedProtector, cell *v1alpha1.PodProtectorCell) {
	t := j.history.cells[cell.CellID]
	if !isCounted(w.stored, &cell.Aggregation) {
		return
	}
	for hash := range accountedReservations(&cell.AdmissionHistory) {
		isDown := false
		for era := j.history.earliestRestores(w.core, cell.CellID, cell.Aggregation.Epoch); era <= t.restores; era++ {
			for _, line := range t.podsOf(era) {
				state, ok := line.at(parseVersion(cell.Aggregation.SnapshotVersion))
				mayCount := ok && state.isAvailable(w, cell.Aggregation.LastEventTime.Time) && state.availableAfter(w).IsZero()
				isDown = isDown || quota.HashUID(line.uid) == hash && !mayCount
			}
		}
		if !isDown && t.byHash[hash] != nil {
			j.report.fail("protector %s does not count the reservation of pod %s against its budget, and the pod is available in the snapshot of %s",
				w.name(), t.byHash[hash].name, cell.CellID)
		}
	}
}

// isOverdue reports whether the reservation of an update may have been dropped after the timeout.
func (h *reservationHistory) isOverdue(hash quota.UIDHash, r *removal) bool {
	decided, known := h.decisions[hash]
	return r.update != nil && known && time.Since(decided.at) >= updateTimeout
}

func drawUpdates(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	s.Updates = true
	for i := range s.Protectors {
		s.Protectors[i].Updates = r.IntN(5) > 0
	}
	for range 1 + r.IntN(4) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 2 + r.IntN(7) {
			step := Step{
				At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: []StepKind{UpdateImage, UpdateImage, ResizePod}[r.IntN(3)], Cell: cell,
				Who: r.IntN(16), N: r.IntN(2), RefusedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 5)
			s.Steps = append(s.Steps, step)
			if r.IntN(3) == 0 { // another update of the same pod, or its removal
				step.At += time.Duration(r.IntN(6000)) * time.Millisecond
				step.What = []StepKind{UpdateImage, ResizePod, Delete, Evict}[r.IntN(4)]
				step.N, step.Stuck, step.For = r.IntN(2), 0, time.Second
				s.Steps = append(s.Steps, step)
			}
		}
		for range 1 + r.IntN(6) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: []StepKind{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16),
				For: time.Second,
			})
		}
	}
}
