package judge

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Removal is one request to remove a pod, and its progress.
type Removal struct {
	ID     string
	Evict  bool
	Pod    types.NamespacedName
	Grace  time.Duration
	DryRun bool
	// Relabel has the labels that the request changes, if it removes nothing.
	Relabel scenario.LabelChange
	// Update is the update that the request makes, if it removes nothing.
	Update *scenario.PodUpdate
	// Hangs is how long the request hangs in the API server between its review and its effect.
	Hangs time.Duration
	// DeniedByOther makes another webhook refuse the request after ours.
	DeniedByOther bool

	// UID is the UID of the pod. reviewed is the pod in the last review; nil if there was no review.
	UID         types.UID
	Reviewed    *corev1.Pod
	RequestedAt time.Time
	// RestoresBefore is the number of restores of the cell before the request began. A restore of an etcd includes a restart of its API servers, and
	// no request outlives that.
	RestoresBefore int
	// SeenVersions is for each core the version up to which the last reviewing webhook knew the protectors.
	SeenVersions map[string]uint64
	// Skips are for each core the changes of protectors that the webhook never received.
	Skips map[string][]apiserver.Skip
	// skew is how far its clock is ahead. counted is when the count that each protector had at the review was taken.
	skew      time.Duration
	countedAt map[*watchedProtector]time.Time
	// Webhook is the name of that webhook, and witness is its start time.
	Webhook      string
	WebhookStart time.Time
	// latestReview is the last review of the request. The judge owns it.
	latestReview *review
	// OverriddenDenial is the denial that the last answer overrode; empty if it overrode none.
	OverriddenDenial removals.VerdictReason
	// stored reports whether the update is stored. The judge owns it.
	stored bool
	// Bypass is why no webhook was called; nil if that is not for lack of the label of a namespace.
	Bypass *bypass
	// openKeys are the pods whose removal is admitted and not finished. The judge owns it.
	openKeys []openKey
}

// RemovalActor returns the name under which the effect of a removal is written.
func RemovalActor(r *Removal) string { return "removal " + r.ID }

// RecordEffecting records the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *Judge) RecordEffecting(cell string, r *Removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effects.effecting[cell] = r
}

// JudgeAllowed judges an answer that allows a removal.
func (j *Judge) JudgeAllowed(p *Replica, cell string, r *Removal, answer removals.Answer) {
	if r.DryRun {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reservations.judgeAllowed(p, cell, r, answer)
	j.shares.judgeAllowed(p, cell, r, answer)
}

// RecordReviewRequest records that an API server requests a review of a removal.
func (j *Judge) RecordReviewRequest(cell string, r *Removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.DryRun {
		j.reservations.requested[openKey{cell, r.UID}] = true
		j.liveness.recordReview(openKey{cell, r.UID}, r)
		j.shares.recordReview(r)
	}
}

// RecordAdmitted records that a removal was admitted to an API server.
func (j *Judge) RecordAdmitted(cell string, r *Removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.counts.Admitted++
	key := openKey{cell, r.UID}
	if !slices.Contains(r.openKeys, key) {
		r.openKeys = append(r.openKeys, key)
	}
	if j.reservations.openRemovals[key] == nil {
		j.reservations.openRemovals[key] = map[*Removal]time.Time{}
	}
	j.reservations.openRemovals[key][r] = r.RequestedAt
}

// CountAnswer counts the results that clients got.
func (j *Judge) CountAnswer(_ *Removal, result string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.counts.Removals++
	if strings.HasPrefix(result, "429") {
		j.report.counts.Denied++
	}
}

// RecordFinished records that the request has taken effect, or never will.
func (j *Judge) RecordFinished(r *Removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openKeys {
		delete(j.reservations.openRemovals[key], r)
	}
	r.openKeys = nil
}

// chargeableBy returns the time by which a pod must have been ready for long enough for a protector to charge its removal.
func (r *Removal) chargeableBy(w *watchedProtector, lenience time.Duration) time.Time {
	at := r.RequestedAt.Add(-lenience)
	behind := r.RequestedAt.Add(r.skew)
	if !behind.Before(at) {
		return at
	}
	if counted := r.countedAt[w]; counted.After(behind) {
		behind = counted
	}
	if behind.Before(at) {
		return behind
	}
	return at
}

// RecordReviewClock records how far the clock by which a removal is reviewed is ahead, and when each protector was last counted. It runs when the
// review begins, so that the webhook reads that count or a later one.
func (j *Judge) RecordReviewClock(cell string, r *Removal, skew time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.skew, r.countedAt = skew, map[*watchedProtector]time.Time{}
	for _, w := range j.history.protectors {
		if w.stored == nil {
			continue
		}
		if c := quota.CellOf(w.stored, cell); c != nil && c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			r.countedAt[w] = c.Aggregation.LastEventTime.Time
		}
	}
}

// reservationHistory is what the reservations of a protector were decided on, and what became of them, by pod.
type reservationHistory struct {
	// decisions are the states that each reservation was decided on.
	decisions map[quota.UIDHash]decision
	// removals are those that took effect by their reservations, by pod.
	removals map[quota.UIDHash]*Removal
	// overduePods are the pods whose reservation of an update was dropped after the timeout.
	overduePods map[quota.UIDHash]bool
}

// decision is the state that a reservation was decided on.
type decision struct {
	at          time.Time
	version     uint64
	countedSpec string
	// floor is the floor of the version that it was made on. position is its place among the decisions on the protector.
	floor, position int
	// isForced reports whether it was admitted only because of an annotation of the pod.
	isForced bool
	// isRestored reports whether a restore of the core brought the reservation back, at the time of the decision.
	isRestored bool
	// isBlindToRestore reports whether it was decided by counts of a lost history that the webhook could not recognize as such.
	isBlindToRestore bool
	// snapshots are the snapshots of the cells that were summed.
	snapshots map[string]observedVersion
	// firstCharge is the first of the decisions on the reservation, if it was renewed.
	firstCharge charge
	// lost is the decision on an earlier reservation of the pod that a restore of the core has lost; nil if there is none. A removal that was admitted
	// by that one may take effect after the pod was reserved again for another removal.
	lost *decision
}

// charge is when a removal was charged, and by which snapshots.
type charge struct {
	at              time.Time
	version         uint64
	floor, position int
	snapshots       map[string]observedVersion
}

func newReservationHistory() reservationHistory {
	return reservationHistory{
		decisions: map[quota.UIDHash]decision{}, removals: map[quota.UIDHash]*Removal{}, overduePods: map[quota.UIDHash]bool{},
	}
}

// hasExpired reports whether the admission deadline has passed since a reservation was made or renewed.
func (h *reservationHistory) hasExpired(hash quota.UIDHash) bool {
	decided, known := h.decisions[hash]
	return known && time.Since(decided.at) >= scenario.AdmissionDeadline
}

// recordRemoval records that a removal took effect by the reservation of its pod. Relabels and updates leave the pod in existence.
func (h *reservationHistory) recordRemoval(pod types.UID, r *Removal, isCharged bool) {
	if isCharged && r.Relabel == nil && r.Update == nil {
		h.removals[quota.HashUID(pod)] = r
	}
}

// recordForced records that a reservation was made although it breaks the floor.
func (h *reservationHistory) recordForced(hash quota.UIDHash) {
	decided := h.decisions[hash]
	decided.isForced = true
	h.decisions[hash] = decided
}
