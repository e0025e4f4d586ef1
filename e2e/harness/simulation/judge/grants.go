package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// GrantsName is the name of the ConfigMap that has the grants.
const GrantsName = brake.ConfigMapName

// grantJudge judges the grants of decreases by the limit of the window, the quiet period and the other pending decreases. The lock of the judge
// guards it.
type grantJudge struct {
	report *report
	stalls *stalls
	floors *floorHistories
	plan   scenario.BrakePlan
	// skew is how much shorter windows and quiet periods may be.
	skew      time.Duration
	histories map[string]*grantHistory
}

// grantHistory is the history of the grants of a core.
type grantHistory struct {
	// requests are the last requests of each process to its brake, by process and UID of the protector.
	requests map[brakeRequestKey]brakeRequest
	// grants are the grants in the history that the core has. lost are those that a restore undid.
	grants, lost []grant
	// usedUntil are the generations of protectors after their last large decrease, by UID, as grants name them: earlier grants are used up.
	usedUntil map[types.UID]int64
	// deletions are the versions at which the ConfigMap was deleted.
	deletions []uint64
	// restored is the version that the core continued with after it was restored, at restoredAt.
	restored   uint64
	restoredAt time.Time
}

// historyOf returns the history of the grants of a core.
func (j *grantJudge) historyOf(core string) *grantHistory {
	if j.histories[core] == nil {
		j.histories[core] = &grantHistory{requests: map[brakeRequestKey]brakeRequest{}, usedUntil: map[types.UID]int64{}}
	}
	return j.histories[core]
}

type brakeRequestKey struct {
	process string
	uid     types.UID
}

// brakeRequest is a request of a process to its brake.
type brakeRequest struct {
	at time.Time
	// processStart is when the process started. seen is the version up to which it had been shown protectors.
	processStart time.Time
	seenVersion  uint64
}

// grant is a grant as it was first stored.
type grant struct {
	brakeRequest
	version uint64
	stored  time.Time
	process string
	uid     types.UID
	stamp   string
	// generation is that of the protector which the grant permits to change.
	generation int64
}

// RecordBrakeRequest records that a process asks whether a decrease of a protector may take effect.
func (j *Judge) RecordBrakeRequest(p *Replica, core string, protector *v1alpha1.PodProtector, seen uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.grants.historyOf(core).requests[brakeRequestKey{p.Name, protector.UID}] = brakeRequest{time.Now(), p.StartedAt, seen}
}

// recordGrants records the grants in the ConfigMap.
func (j *grantJudge) recordGrants(core string, object *corev1.ConfigMap, e *apiserver.Event) {
	if object.Name != GrantsName {
		return
	}
	if e.Type == watch.Deleted {
		truth := j.historyOf(core)
		truth.deletions = append(truth.deletions, e.Version)
		return
	}
	process, _ := writingProcess(e)
	for _, text := range object.Data {
		var stored []struct{ Protector, At, Change string }
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			j.report.fail("cannot parse the ConfigMap of the grants: %v", err)
		}
		for _, s := range stored {
			g := grant{version: e.Version, stored: time.Now(), process: process, uid: types.UID(s.Protector), stamp: s.At}
			if _, err := fmt.Sscan(s.Change, &g.generation); err != nil {
				j.report.fail("grant of %s has the change %q, which does not begin with a generation", s.Protector, s.Change)
			}
			g.brakeRequest = j.historyOf(core).requests[brakeRequestKey{process, g.uid}]
			j.addGrant(core, g)
		}
	}
}

// addGrant adds a new grant. A grant that a restore has undone, and that a process remembers, was judged before.
func (j *grantJudge) addGrant(core string, g grant) {
	truth := j.historyOf(core)
	isSame := func(other grant) bool { return other.uid == g.uid && other.stamp == g.stamp }
	if slices.ContainsFunc(truth.grants, isSame) {
		return
	}
	if at := slices.IndexFunc(truth.lost, isSame); at >= 0 {
		g.brakeRequest = truth.lost[at].brakeRequest
	} else if j.stalls.oldestObservedState(g.process, g.at.Add(-maxInFlightRelease)).After(truth.restoredAt) { // what it was decided on may be undone before
		j.judgeGrant(core, g)
	}
	truth.grants = append(truth.grants, g)
}

// judgeGrant judges whether a decrease may be granted, when its grant is stored.
func (j *grantJudge) judgeGrant(core string, g grant) {
	limit := max(j.plan.Count, j.floors.maxProtectors[core]*j.plan.Percent/100)
	inWindow := j.inWindow(core, g)
	if len(inWindow) >= limit {
		j.report.fail("%s granted a decrease of %s, but %v were granted in the same window; limit %d", g.process, g.uid, inWindow, limit)
	}
	key, state, recorded := j.floors.pendingSince(g.uid, g.at.Add(-maxInFlightRelease)) // its protector may have vanished since it was read
	if !recorded {
		j.report.fail("%s granted a decrease of %s that its condition does not record", g.process, g.uid)
		return
	}
	age := time.Since(state.value.since) + j.skew
	if age < j.plan.Quiet {
		j.report.fail("%s granted a decrease of %s after %s, want a quiet period of %s", g.process, g.uid, age-j.skew, j.plan.Quiet)
	}
	if g.seenVersion < j.historyOf(core).restored || age >= j.plan.Window {
		return
	}
	if others := j.otherPendingDecreases(key, g); len(others)+1 > limit-len(inWindow) {
		j.report.fail("%s granted a decrease of %s, which is pending for %s, while %v are pending too; the window has %d left",
			g.process, g.uid, age-j.skew, others, limit-len(inWindow))
	}
}

// inWindow returns the protectors of the other grants that share the window of a grant, as far as its process can know.
func (j *grantJudge) inWindow(core string, g grant) (uids []types.UID) {
	truth := j.historyOf(core)
	from := time.Now().Add(j.skew - j.plan.Window)
	for _, other := range truth.grants {
		isKnown := truth.configMapsBefore(other.version) == truth.configMapsBefore(g.version) || other.process == g.process &&
			other.processStart.Equal(g.processStart)
		if isKnown && other.at.After(from) && (other.uid != g.uid || other.generation != g.generation) {
			uids = append(uids, other.uid)
		}
	}
	return uids
}

// configMapsBefore counts the ConfigMaps that existed before the one of a version.
func (t *grantHistory) configMapsBefore(version uint64) int {
	n := 0
	for _, deletion := range t.deletions {
		if deletion < version {
			n++
		}
	}
	return n
}

// otherPendingDecreases returns the other protectors whose decreases are pending, and which the process of a grant had been shown as pending.
func (j *grantJudge) otherPendingDecreases(key protectorKey, g grant) (names []string) {
	for other, truth := range j.floors.protectors {
		if other.core != key.core || other == key || !truth.isPendingSince(g.seenVersion) || j.wasGranted(key.core, latest(truth.pendings).value) {
			continue
		}
		names = append(names, other.name.Name)
	}
	slices.Sort(names)
	return names
}

// wasGranted reports whether a recorded decrease has a grant that may still count. A decrease that has just taken effect is still recorded as pending.
// A grant that is used up, and older than the record, was for an earlier decrease.
func (j *grantJudge) wasGranted(core string, record pendingState) bool {
	truth, from := j.historyOf(core), time.Now().Add(-j.plan.Window-j.skew)
	return slices.ContainsFunc(slices.Concat(truth.grants, truth.lost), func(g grant) bool {
		isEarlier := g.generation < truth.usedUntil[g.uid] && g.stored.Before(record.since)
		return g.uid == record.uid && g.stored.After(from) && !isEarlier
	})
}

// grantedGeneration returns the generation that a grant of a decrease of a protector names: the request of its deletion raises the generation, but does not
// end a grant of its release.
func grantedGeneration(p *v1alpha1.PodProtector) int64 {
	if p.DeletionTimestamp != nil {
		return p.Generation - 1
	}
	return p.Generation
}

// lastGrant returns when a grant of a protector that is not used up was last stored.
func (j *grantJudge) lastGrant(core string, uid types.UID) (last time.Time) {
	truth := j.historyOf(core)
	for _, g := range slices.Concat(truth.grants, truth.lost) {
		if g.uid == uid && g.generation >= truth.usedUntil[uid] && g.stored.After(last) {
			last = g.stored
		}
	}
	return last
}
