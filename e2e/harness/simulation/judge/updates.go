package judge

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// RestartsOf returns how often a container of a pod was restarted.
func RestartsOf(pod *corev1.Pod, container string) int32 {
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
func (j *effectJudge) isRestartCharged(t *cellHistory, w *watchedProtector, r *Removal, before podState, line *podHistory) bool {
	if w.guardsOperation(r.Update.Operation()) {
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

// RecordStoredUpdate records that an update is stored.
func (j *Judge) RecordStoredUpdate(r *Removal) {
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
	return len(reservationHashes(h)) - len(accountedReservations(h)) + countEscrowed(h)
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
func (h *reservationHistory) isOverdue(hash quota.UIDHash, r *Removal) bool {
	decided, known := h.decisions[hash]
	return r.Update != nil && known && time.Since(decided.at) >= scenario.UpdateTimeout
}

// IsReviewed reports whether the match conditions of the webhook select the request: an update that changes neither a label nor the criterion
// is not reviewed.
func (r *Removal) IsReviewed(pod *corev1.Pod) bool {
	if r.Relabel == nil {
		return true
	}
	after := r.Relabel.Applied(pod)
	return !maps.Equal(pod.Labels, after.Labels) || !haveSameCriterion(pod, after)
}

func haveSameCriterion(a, b *corev1.Pod) bool {
	before, hadBefore := a.Annotations[v1alpha1.AnnotationCriterion]
	after, hasAfter := b.Annotations[v1alpha1.AnnotationCriterion]
	return before == after && hadBefore == hasAfter
}

// loses reports whether a relabel takes a pod from the protector: the pod is no longer covered, or does not count by its new criterion.
func (w *watchedProtector) loses(pod *corev1.Pod, l scenario.LabelChange) bool {
	after := l.Applied(pod)
	return !w.covers(after) || !haveSameCriterion(pod, after) && !podState{pod: after}.isCountable(w)
}

// isMoot reports whether a relabel or an update can no longer take effect after its review: API servers store it only while the pod has
// the version that was reviewed.
func (r *Removal) isMoot(line *podHistory) bool {
	return (r.Relabel != nil || r.Update != nil && !r.stored) && line.current().version != parseVersion(r.Reviewed.ResourceVersion)
}

// isChargedFor reports whether a request takes a pod from a protector that it covers, by an operation that the protector guards.
func (w *watchedProtector) isChargedFor(r *Removal, pod *corev1.Pod) bool {
	switch {
	case r.Relabel != nil:
		return w.guardsRelabels() && w.loses(pod, r.Relabel)
	case r.Update != nil:
		return w.guardsOperation(r.Update.Operation())
	default:
		return true
	}
}

// guardsRelabels reports whether relabels consume budget; by default they do. This is an independent implementation, not the code under
// test.
func (w *watchedProtector) guardsRelabels() bool {
	operations := w.stored.Spec.Operations
	return len(operations) == 0 || slices.Contains(operations, v1alpha1.OperationRelabel)
}

// isRelabelCharged reports whether a relabel that took effect is to be judged as a removal from a protector. A protector that does not guard
// relabels loses the pod.
func (j *effectJudge) isRelabelCharged(t *cellHistory, w *watchedProtector, r *Removal, before podState, version uint64) bool {
	if !w.loses(before.pod, r.Relabel) {
		return false
	}
	if !w.guardsRelabels() {
		t.losses = append(t.losses, loss{excuse: lossRelabeled, restores: t.restores, version: version, before: before,
			after: podState{pod: r.Relabel.Applied(before.pod)}, protector: w})
		return false
	}
	if before.isAvailable(w, time.Now()) {
		j.report.counts.Relabels++
	}
	return true
}
