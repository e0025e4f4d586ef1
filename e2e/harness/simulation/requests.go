package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// recordEffecting records the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *judge) recordEffecting(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effecting[cell] = r
}

// judgeAllowed judges an answer that allows a removal: its reservation must be stored in every core where the webhook knew a protector of the
// pod.
func (j *judge) judgeAllowed(p *process, cell string, r *removal, answer removals.Answer) {
	if r.dryRun || p.pauseState.hasEnded() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cells[cell].restores != r.restoresBefore {
		return // no client gets the answer
	}
	line := j.existingPod(cell, r.pod.Name)
	// The webhook itself reads the pod of an eviction. Only if the pod has not changed since is it certain what the webhook saw.
	if line == nil || line.current().version != parseVersion(r.reviewed.ResourceVersion) {
		return
	}
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		status := quota.CellOf(w.stored, cell)
		if !w.isChargedFor(r, line.current().pod) || !line.current().isCharged(w, r.chargeableBy(w, j.clockTolerance)) ||
			status != nil && hasReservation(&status.AdmissionHistory, quota.HashUID(line.uid)) {
			continue
		}
		switch {
		case j.isPendingForcedReservation(cell, line, overriddenDenial(answer)):
			j.countExcuse(excuseForcedAnswer)
		case w.isUnseenBy(r):
			j.countExcuse(excuseUnseenProtectorAnswer)
		case w.isDecidedAtZeroFloor(r.requestedAt):
			j.countExcuse(excuseZeroFloorAnswer)
		case w.isLostInRestore(quota.HashUID(line.uid), r.requestedAt):
			j.countExcuse(excuseRestoreLostAnswer)
		case w.isWithoutStatus(quota.HashUID(line.uid)):
			j.countExcuse(excuseRecreatedAnswer)
		case status != nil && j.isAccountedFor(w, status, line, false): // a restore has brought it back, and the counts are from before
			j.countExcuse(excuseCountBeforeRestore)
		default:
			j.fail("%s allowed the removal of %s, but protector %s holds no reservation for it", p.name, line.name, w.name())
		}
	}
}

func (j *judge) existingPod(cell, name string) *podHistory {
	for _, line := range j.cells[cell].pods {
		if line.name == name && !line.current().isGoneOrTerminating() {
			return line
		}
	}
	return nil
}

func hasReservation(h *v1alpha1.AdmissionHistory, hash quota.UIDHash) bool {
	for r := range quota.Reservations(h) {
		if r.Hash == hash {
			return true
		}
	}
	return false
}

// recordReviewRequest records that an API server requests a review of a removal.
func (j *judge) recordReviewRequest(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.dryRun {
		j.requested[openKey{cell, r.uid}] = true
		j.liveness.recordReview(openKey{cell, r.uid}, r)
	}
}

// recordAdmitted records that a removal was admitted to an API server.
func (j *judge) recordAdmitted(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Admitted++
	key := openKey{cell, r.uid}
	if !slices.Contains(r.openKeys, key) {
		r.openKeys = append(r.openKeys, key)
	}
	if j.openRemovals[key] == nil {
		j.openRemovals[key] = map[*removal]time.Time{}
	}
	j.openRemovals[key][r] = r.requestedAt
}

// countAnswer counts the results that clients got.
func (j *judge) countAnswer(_ *removal, result string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Removals++
	if strings.HasPrefix(result, "429") {
		j.counts.Refused++
	}
}

// recordFinished records that the request has taken effect, or never will.
func (j *judge) recordFinished(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openKeys {
		delete(j.openRemovals[key], r)
	}
	r.openKeys = nil
}
