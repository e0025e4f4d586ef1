package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// The second half of the promise of docs/safety.md, in the middle of the storm. Budget that exists is usable, at the latest when the
// admission deadline has passed for removals that were admitted and never took effect. The judge computes a lower bound of the budget of a
// protector from the pods' own history. Let W be the admission deadline plus usableWithin, and T the time of an answer. The bound is
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
	// usableWithin is how long the components take to notice, write and receive that budget is available again: twice the longest lag of a
	// watch, a live read, the rate of writes, and some requests on slow connections.
	usableWithin = 10 * time.Second
	// recovery is how long a component takes to recover after a fault: until its Lease has ended and it has listed everything again.
	recovery = leaseDuration + 5*time.Second
)

// liveness judges denials for lack of budget.
type liveness struct {
	// reliable reports whether the connections lose nothing.
	reliable bool
	// began is when all was counted and the storm began.
	began time.Time
	// disturbed is when the last fault so far ends.
	disturbed time.Time
	// asks are the reviews of a pod that may have reserved something.
	asks map[openKey][]*reviewed
	// changed is when a protector began to cover its present pods. ended is when a protector ended.
	changed, ended map[protectorKey]time.Time
}

// reviewed is one review.
type reviewed struct {
	at      time.Time
	refused bool
	// update reports whether it was of an update, whose reservation lasts until the pod is available again.
	update bool
}

func newLiveness(s Storm) *liveness {
	return &liveness{
		reliable: s.Weather.Lose == 0 && s.Weather.Break == 0,
		asks:     map[openKey][]*reviewed{}, changed: map[protectorKey]time.Time{}, ended: map[protectorKey]time.Time{},
	}
}

// disturbs records a fault.
func (j *judge) disturbs(s Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lasts := s.For
	if s.What == JumpClock {
		lasts = time.Hour
	}
	if end := time.Now().Add(lasts + recovery); end.After(j.liveness.disturbed) {
		j.liveness.disturbed = end
	}
}

// judgeAnswer judges an answer that denies for lack of budget, and counts one that must not.
func (j *judge) judgeAnswer(cell string, r *removal, answer removals.Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := time.Now().Add(-admissionDeadline - usableWithin)
	if from.Before(j.liveness.began) {
		from = j.liveness.began
	}
	l, line := j.liveness, j.cells[cell].pods[r.uid]
	if line == nil || r.dryRun || j.cells[cell].era != r.era {
		return
	}
	usable := l.reliable && !from.Before(l.disturbed)
	covered := 0
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		if !w.covers(line.now().pod) {
			continue
		}
		covered++
		usable = usable && !from.Before(l.changed[key]) && w.lost.IsZero() && w.restored.IsZero() && j.isUsable(w, cell, r, from)
	}
	lacks := !answer.Allowed && l.lacksBudget(answer) && !l.isByEnded(answer)
	if asks := l.asks[openKey{cell, r.uid}]; lacks && covered == 1 && len(asks) > 0 {
		r.latest.refused = true
	}
	if !usable || covered == 0 || !answer.Allowed && !lacks {
		return
	}
	j.counts.Usable++
	if lacks {
		j.fail("removal %s of %s is refused with %s, and every protector of the pod has had budget for %s", r.id, line.name, answer.Verdict, time.Since(from))
	}
}

// lacksBudget reports whether an answer denies for lack of budget. When the storm begins, a webhook may not have seen the first counts
// yet.
func (l *liveness) lacksBudget(answer removals.Answer) bool {
	isUncounted := quota.Outcome(answer.Verdict) == quota.RefusedNeverAggregated
	return isLackOfBudget(answer.Verdict) || isUncounted && time.Since(l.began) >= usableWithin
}

// isByEnded reports whether the denying protector ended shortly before.
func (l *liveness) isByEnded(answer removals.Answer) bool {
	if answer.Blames == nil {
		return false
	}
	at, ended := l.ended[protectorKey{answer.Blames.Core, answer.Blames.Key}]
	return ended && time.Since(at) < usableWithin
}

// isLackOfBudget reports whether a protector that was counted denied the removal.
func isLackOfBudget(verdict removals.VerdictReason) bool {
	switch quota.Outcome(verdict) {
	case quota.RefusedNoBudget, quota.RefusedDomainLoss, quota.RefusedFull:
		return true
	default:
		return false
	}
}

// asked records a review.
func (l *liveness) asked(key openKey, r *removal) {
	r.latest = &reviewed{at: time.Now(), update: r.change != nil}
	l.asks[key] = append(l.asks[key], r.latest)
}

// mayBeReserved reports whether a review since a time may have reserved the removal of a pod.
func (l *liveness) mayBeReserved(key openKey, from time.Time) bool {
	return slices.ContainsFunc(l.asks[key], func(a *reviewed) bool { return !a.refused && (a.update || !a.at.Before(from)) })
}

// drawUsable adds removals that are admitted and abandoned after the last fault, and requests others when their reservations must have
// ended.
func (s *Scenario) drawUsable(r *rand.Rand) {
	if r.IntN(4) > 0 || s.Generated {
		return
	}
	for i := range 2 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: 62*time.Second + time.Duration(i)*time.Millisecond, What: CreatePod, Cell: r.IntN(s.Workers), Who: 1})
	}
	for range 3 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: 70*time.Second + time.Duration(r.IntN(4000))*time.Millisecond, What: Delete, Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			RefusedLater: true,
		})
	}
	for range 3 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: 105*time.Second + time.Duration(r.IntN(4000))*time.Millisecond, What: []What{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16),
			For: time.Second,
		})
	}
}

// isUsable reports whether the lower bound of the budget allows one more removal in a cell.
func (j *judge) isUsable(w *watched, in string, r *removal, from time.Time) bool {
	floor := w.highestFloorSince(from)
	left, sum, asked := map[string]int{}, 0, 0
	for name, t := range j.cells {
		reserved := 0
		for uid, line := range t.pods {
			if uid != r.uid && j.liveness.mayBeReserved(openKey{name, uid}, from) {
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
	if !w.mindsLoss() {
		return true
	}
	for lost := range j.cells {
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
func (l *lifeline) availableSince(w *watched, from time.Time) bool {
	for i, state := range l.states {
		ended := i+1 < len(l.states) && !l.states[i+1].at.After(from)
		if !ended && !state.available(w, from) || i == 0 && state.at.After(from) {
			return false
		}
	}
	return true
}

func (w *watched) highestFloorSince(at time.Time) int {
	highest := floorOf(w.stored)
	for i, f := range w.floors {
		if i+1 == len(w.floors) || w.floors[i+1].at.After(at) {
			highest = max(highest, f.floor)
		}
	}
	return highest
}
