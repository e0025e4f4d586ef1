package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// about names the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *judge) about(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effecting[cell] = r
}

// allowed judges an answer that allows: what it reserved must stand in every core that its webhook knew to cover the
// pod.
func (j *judge) allowed(p *process, cell string, r *removal, answer removals.Answer) {
	if r.dryRun || p.paused.isDead() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cells[cell].era != r.era {
		return // nobody hears the answer
	}
	line := j.livingPod(cell, r.pod.Name)
	// The webhook itself reads the pod of an eviction; only a pod that has not changed since is sure to be what it saw.
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
		case status != nil && j.isCountedGone(w, status, line, false): // a restore has brought it back, and the counts are of before
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

// asks notes that an apiserver asks for leave to remove a pod.
func (j *judge) asks(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.dryRun {
		j.asked[openKey{cell, r.uid}] = true
		j.liveness.asked(openKey{cell, r.uid}, r)
	}
}

// admitted notes that an apiserver has got leave to remove a pod.
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

// answered counts what a client was told.
func (j *judge) answered(_ *removal, word string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Removals++
	if strings.HasPrefix(word, "429") {
		j.counts.Refused++
	}
}

// finished notes that it has made use of it, or never will.
func (j *judge) finished(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openIn {
		delete(j.open[key], r)
	}
	r.openIn = nil
}
