package simulation

import (
	"slices"
	"strings"
	"time"

	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// recordEffecting records the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *judge) recordEffecting(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effects.effecting[cell] = r
}

// judgeAllowed judges an answer that allows a removal.
func (j *judge) judgeAllowed(p *replica, cell string, r *removal, answer removals.Answer) {
	if r.dryRun {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reservations.judgeAllowed(p, cell, r, answer)
	j.shares.judgeAllowed(p, cell, r, answer)
}

// recordReviewRequest records that an API server requests a review of a removal.
func (j *judge) recordReviewRequest(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.dryRun {
		j.reservations.requested[openKey{cell, r.uid}] = true
		j.liveness.recordReview(openKey{cell, r.uid}, r)
		j.shares.recordReview(r)
	}
}

// recordAdmitted records that a removal was admitted to an API server.
func (j *judge) recordAdmitted(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.counts.Admitted++
	key := openKey{cell, r.uid}
	if !slices.Contains(r.openKeys, key) {
		r.openKeys = append(r.openKeys, key)
	}
	if j.reservations.openRemovals[key] == nil {
		j.reservations.openRemovals[key] = map[*removal]time.Time{}
	}
	j.reservations.openRemovals[key][r] = r.requestedAt
}

// countAnswer counts the results that clients got.
func (j *judge) countAnswer(_ *removal, result string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.counts.Removals++
	if strings.HasPrefix(result, "429") {
		j.report.counts.Refused++
	}
}

// recordFinished records that the request has taken effect, or never will.
func (j *judge) recordFinished(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openKeys {
		delete(j.reservations.openRemovals[key], r)
	}
	r.openKeys = nil
}
