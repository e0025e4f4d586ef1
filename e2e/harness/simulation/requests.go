package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// about records the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *judge) about(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effecting[cell] = r
}

// allowed judges an answer that allows a removal: its reservation must be stored in every core where the webhook knew a protector of the
// pod.
func (j *judge) allowed(p *process, cell string, r *removal, answer removals.Answer) {
	if r.dryRun || p.paused.isDead() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cells[cell].era != r.era {
		return // no client gets the answer
	}
	line := j.livingPod(cell, r.pod.Name)
	// The webhook itself reads the pod of an eviction. Only if the pod has not changed since is it certain what the webhook saw.
	if line == nil || line.now().version != parseVersion(r.reviewed.ResourceVersion) {
		return
	}
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		status := quota.CellOf(w.stored, cell)
		if !w.isCharged(r, line.now().pod) || !line.now().charged(w, r.agedAt(w, j.lenience)) ||
			status != nil && holds(&status.AdmissionHistory, quota.HashUID(line.uid)) {
			continue
		}
		switch {
		case j.isOwed(cell, line, overrode(answer)):
			j.excuse(excuseOwedAnswer)
		case w.isUnheardOf(r):
			j.excuse(excuseUnheardOfAnswer)
		case w.waived(r.asked):
			j.excuse(excuseWaivedAnswer)
		case w.excuses(quota.HashUID(line.uid), r.asked):
			j.excuse(excuseForgottenAnswer)
		case w.isWithoutStatus(quota.HashUID(line.uid)):
			j.excuse(excuseRecreatedAnswer)
		case status != nil && j.isCountedGone(w, status, line, false): // a restore has brought it back, and the counts are from before
			j.excuse(excuseCountedGone)
		default:
			j.fail("%s allowed the removal of %s, and protector %s holds no reservation for it", p.name, line.name, w.name())
		}
	}
}

func (j *judge) livingPod(cell, name string) *lifeline {
	for _, line := range j.cells[cell].pods {
		if line.name == name && !line.now().over() {
			return line
		}
	}
	return nil
}

func holds(h *v1alpha1.AdmissionHistory, hash quota.UIDHash) bool {
	for r := range quota.Reservations(h) {
		if r.Hash == hash {
			return true
		}
	}
	return false
}

// asks records that an API server requests a review of a removal.
func (j *judge) asks(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.dryRun {
		j.asked[openKey{cell, r.uid}] = true
		j.liveness.asked(openKey{cell, r.uid}, r)
	}
}

// admitted records that a removal was admitted to an API server.
func (j *judge) admitted(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Admitted++
	key := openKey{cell, r.uid}
	if !slices.Contains(r.openIn, key) {
		r.openIn = append(r.openIn, key)
	}
	if j.open[key] == nil {
		j.open[key] = map[*removal]time.Time{}
	}
	j.open[key][r] = r.asked
}

// answered counts the results that clients got.
func (j *judge) answered(_ *removal, word string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Removals++
	if strings.HasPrefix(word, "429") {
		j.counts.Refused++
	}
}

// finished records that the request has taken effect, or never will.
func (j *judge) finished(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openIn {
		delete(j.open[key], r)
	}
	r.openIn = nil
}
