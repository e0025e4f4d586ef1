package judge

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// The second half of the promise of docs/concepts/safety.md, in the middle of the storm. Budget that exists is usable, at the latest when the
// admission deadline has passed for removals that were admitted and never took effect. The judge computes a lower bound of the budget of a
// protector from the pods' own history. Let W be the admission deadline plus budgetDelay, and T the time of an answer. The bound is
//
//   - the pods that were available all the time from T-W to T,
//   - less those whose removal an API server requested in that time, unless it was denied and one protector covers the pod: each may be
//     reserved,
//   - less the highest floor of that time.
//
// Where a protector must tolerate the loss of a cell, the bound is also computed without each other cell: the first two are summed over
// the remaining cells, none below zero. If every protector of a pod has a bound above zero, the removal of the pod must not be denied for
// lack of budget. All protectors were counted when the storm began, so that a window may begin before it.
//
// That is promised while all components work, so the judge excuses denials:
//
//   - while a fault lasts, and for recovery and W after its end. A wrong clock stays wrong to the end of the storm;
//   - on connections that lose messages or break watches, after which clients wait for up to half a minute;
//   - for W after the protector was created, or covers other pods, and whenever it has vanished or its core was restored;
//   - by a protector that ended shortly before, if the webhook may not have seen its end.
const (
	// budgetDelay is how long the components take to notice, write and receive that budget is available again: twice the longest lag of a
	// watch, a live read, the rate of writes, and some requests on slow connections.
	budgetDelay = 10 * time.Second
	// RecoveryTime is how long a component takes to recover after a fault: until its Lease has ended and it has listed everything again.
	RecoveryTime = scenario.LeaseDuration + 5*time.Second
)

// livenessJudge judges denials for lack of budget. The lock of the judge guards it.
type livenessJudge struct {
	history *clusterHistory
	report  *report
	// reliable reports whether the connections lose nothing.
	reliable bool
	// stormStart is when all was counted and the storm began.
	stormStart time.Time
	// lastFaultEnd is when the last fault so far ends.
	lastFaultEnd time.Time
	// reviews are the reviews of a pod that may have reserved something.
	reviews map[openKey][]*review
	// coverageChangedAt is when a protector began to cover its present pods. ended is when a protector ended.
	coverageChangedAt, endedAt map[protectorKey]time.Time
}

// review is one review.
type review struct {
	at       time.Time
	isDenied bool
	// isUpdate reports whether it was of an update, whose reservation lasts until the pod is available again.
	isUpdate bool
}

func newLiveness(s scenario.Storm, history *clusterHistory, r *report) *livenessJudge {
	return &livenessJudge{
		history: history, report: r, reliable: s.Weather.Lose == 0 && s.Weather.Break == 0,
		reviews: map[openKey][]*review{}, coverageChangedAt: map[protectorKey]time.Time{}, endedAt: map[protectorKey]time.Time{},
	}
}

// RecordFault records a fault.
func (j *Judge) RecordFault(s scenario.Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.liveness.recordFault(s)
}

// JudgeDenial judges an answer that denies for lack of budget.
func (j *Judge) JudgeDenial(cell string, r *Removal, answer removals.Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.liveness.judgeDenial(cell, r, answer)
}

func (l *livenessJudge) recordFault(s scenario.Step) {
	lasts := s.For
	if s.What == scenario.JumpClock {
		lasts = time.Hour
	}
	if end := time.Now().Add(lasts + RecoveryTime); end.After(l.lastFaultEnd) {
		l.lastFaultEnd = end
	}
}

// judgeDenial judges an answer that denies for lack of budget, and counts one that must not.
func (l *livenessJudge) judgeDenial(cell string, r *Removal, answer removals.Answer) {
	from := time.Now().Add(-scenario.AdmissionDeadline - budgetDelay)
	if from.Before(l.stormStart) {
		from = l.stormStart
	}
	line := l.history.cells[cell].pods[r.UID]
	if line == nil || r.DryRun || l.history.cells[cell].restores != r.RestoresBefore {
		return
	}
	// When the storm begins, a webhook may not have seen the counts of all cells yet.
	usable := l.reliable && !from.Before(l.lastFaultEnd) && time.Since(l.stormStart) >= budgetDelay
	covered := 0
	for _, key := range l.history.sortedProtectors() {
		w := l.history.protectors[key]
		if !w.covers(line.current().pod) {
			continue
		}
		covered++
		usable = usable && !from.Before(l.coverageChangedAt[key]) && w.lostAt.IsZero() && w.lastRestore.IsZero() && l.isUsable(w, cell, r, from)
	}
	lacks := !answer.Allowed && l.lacksBudget(answer) && !l.isDeniedByDeleted(answer)
	if asks := l.reviews[openKey{cell, r.UID}]; lacks && covered == 1 && len(asks) > 0 {
		r.latestReview.isDenied = true
	}
	if !usable || covered == 0 || !answer.Allowed && !lacks {
		return
	}
	l.report.counts.UsableDenials++
	if lacks {
		l.report.fail("removal %s of %s was denied with %s, but every protector of the pod has had budget for %s", r.ID, line.name, answer.Verdict, time.Since(from))
	}
}

// lacksBudget reports whether an answer denies for lack of budget. When the storm begins, a webhook may not have seen the first counts
// yet.
func (l *livenessJudge) lacksBudget(answer removals.Answer) bool {
	isUncounted := quota.Outcome(answer.Verdict) == quota.DeniedNeverAggregated
	return isLackOfBudget(answer.Verdict) || isUncounted && time.Since(l.stormStart) >= budgetDelay
}

// isDeniedByDeleted reports whether the denying protector ended shortly before.
func (l *livenessJudge) isDeniedByDeleted(answer removals.Answer) bool {
	if answer.DeniedBy == nil {
		return false
	}
	at, ended := l.endedAt[protectorKey{answer.DeniedBy.Core, answer.DeniedBy.Key}]
	return ended && time.Since(at) < budgetDelay
}

// isLackOfBudget reports whether a protector that was counted denied the removal.
func isLackOfBudget(verdict removals.VerdictReason) bool {
	switch quota.Outcome(verdict) {
	case quota.DeniedNoBudget, quota.DeniedDomainLoss, quota.DeniedFull:
		return true
	default:
		return false
	}
}

// recordReview records a review.
func (l *livenessJudge) recordReview(key openKey, r *Removal) {
	r.latestReview = &review{at: time.Now(), isUpdate: r.Update != nil}
	l.reviews[key] = append(l.reviews[key], r.latestReview)
}

// mayBeReserved reports whether a review since a time may have reserved the removal of a pod.
func (l *livenessJudge) mayBeReserved(key openKey, from time.Time) bool {
	return slices.ContainsFunc(l.reviews[key], func(a *review) bool { return !a.isDenied && (a.isUpdate || !a.at.Before(from)) })
}

// isUsable reports whether the lower bound of the budget allows one more removal in a cell.
func (l *livenessJudge) isUsable(w *watchedProtector, in string, r *Removal, from time.Time) bool {
	floor := max(floorOf(w.stored), w.floors.highestSince(from))
	left, sum, asked := map[string]int{}, 0, 0
	for name, t := range l.history.cells {
		reserved := 0
		for uid, line := range t.pods {
			if uid != r.UID && l.mayBeReserved(openKey{name, uid}, from) {
				reserved++
			}
			if line.availableSince(w, from) {
				left[name]++
			}
		}
		sum, asked = sum+left[name]-reserved, asked+reserved
		left[name] = max(0, left[name]-reserved)
	}
	if limit := int(w.stored.Spec.AdmissionHistory.MaxConcurrentLag); limit > 0 && asked >= limit {
		return false
	}
	if sum <= floor {
		return false
	}
	if !w.toleratesDomainLoss() {
		return true
	}
	for lost := range l.history.cells {
		outside := 0
		for name, n := range left {
			if name != lost {
				outside += n
			}
		}
		if lost != in && outside <= floor {
			return false
		}
	}
	return true
}

// availableSince reports whether a pod has been available all the time since from.
func (l *podHistory) availableSince(w *watchedProtector, from time.Time) bool {
	for i, state := range l.states {
		ended := i+1 < len(l.states) && !l.states[i+1].at.After(from)
		if !ended && !state.isAvailable(w, from) || i == 0 && state.at.After(from) {
			return false
		}
	}
	return true
}
