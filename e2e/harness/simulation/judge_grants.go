package simulation

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// grantHistory is the history of the grants of a core.
type grantHistory struct {
	// requests are the last requests of each process to its brake, by process and UID of the protector.
	requests map[brakeRequestKey]brakeRequest
	// grants are the grants in the history that the core has. lost are those that a restore undid.
	grants, lost []grant
	// deletions are the versions at which the ConfigMap was deleted.
	deletions []uint64
	// restored is the version that the core continued with after it was restored, at restoredAt.
	restored   uint64
	restoredAt time.Time
}

// grantsOf returns the history of the grants of a core.
func (d *decreaseJudge) grantsOf(core string) *grantHistory {
	if d.grants[core] == nil {
		d.grants[core] = &grantHistory{requests: map[brakeRequestKey]brakeRequest{}}
	}
	return d.grants[core]
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
}

// recordBrakeRequest records that a process asks whether a decrease of a protector may take effect.
func (j *judge) recordBrakeRequest(p *process, core string, protector *v1alpha1.PodProtector, seen uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.grantsOf(core).requests[brakeRequestKey{p.name, protector.UID}] = brakeRequest{time.Now(), p.startedAt, seen}
}

// recordGrants records the grants in the ConfigMap.
func (d *decreaseJudge) recordGrants(core string, object *corev1.ConfigMap, e *apiserver.Event) {
	if object.Name != grantsName {
		return
	}
	if e.Type == watch.Deleted {
		truth := d.grantsOf(core)
		truth.deletions = append(truth.deletions, e.Version)
		return
	}
	process, _ := writingProcess(e)
	for _, text := range object.Data {
		var stored []struct{ Protector, At string }
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			d.fail("cannot parse the ConfigMap of the grants: %v", err)
		}
		for _, s := range stored {
			g := grant{version: e.Version, stored: time.Now(), process: process, uid: types.UID(s.Protector), stamp: s.At}
			g.brakeRequest = d.grantsOf(core).requests[brakeRequestKey{process, g.uid}]
			d.addGrant(core, g)
		}
	}
}

// addGrant adds a new grant. A grant that a restore has undone, and that a process remembers, was judged before.
func (d *decreaseJudge) addGrant(core string, g grant) {
	truth := d.grantsOf(core)
	isSame := func(other grant) bool { return other.uid == g.uid && other.stamp == g.stamp }
	if slices.ContainsFunc(truth.grants, isSame) {
		return
	}
	if at := slices.IndexFunc(truth.lost, isSame); at >= 0 {
		g.brakeRequest = truth.lost[at].brakeRequest
	} else if d.oldestObservedState(g.process, g.at.Add(-maxInFlightRelease)).After(truth.restoredAt) { // what it was decided on may be undone before
		d.judgeGrant(core, g)
	}
	truth.grants = append(truth.grants, g)
}

// judgeGrant judges whether a decrease may be granted, when its grant is stored.
func (d *decreaseJudge) judgeGrant(core string, g grant) {
	limit := max(d.plan.Count, d.maxProtectors[core]*d.plan.Percent/100)
	inWindow := d.inWindow(core, g)
	if len(inWindow) >= limit {
		d.fail("%s granted a decrease of %s, but %v were granted in the same window; limit %d", g.process, g.uid, inWindow, limit)
	}
	key, state, recorded := d.pendingSince(g.uid, g.at.Add(-maxInFlightRelease)) // its protector may have vanished since it was read
	if !recorded {
		d.fail("%s granted a decrease of %s that its condition does not record", g.process, g.uid)
		return
	}
	age := time.Since(state.value.since) + d.skew
	if age < d.plan.Quiet {
		d.fail("%s granted a decrease of %s after %s, want a quiet period of %s", g.process, g.uid, age-d.skew, d.plan.Quiet)
	}
	if g.seenVersion < d.grantsOf(core).restored || age >= d.plan.Window {
		return
	}
	if others := d.otherPendingDecreases(key, g); len(others)+1 > limit-len(inWindow) {
		d.fail("%s granted a decrease of %s, which is pending for %s, while %v are pending too; the window has %d left",
			g.process, g.uid, age-d.skew, others, limit-len(inWindow))
	}
}

// inWindow returns the other protectors that share the window of a grant, as far as its process can know.
func (d *decreaseJudge) inWindow(core string, g grant) (uids []types.UID) {
	truth := d.grantsOf(core)
	from := time.Now().Add(d.skew - d.plan.Window)
	for _, other := range truth.grants {
		isKnown := truth.configMapsBefore(other.version) == truth.configMapsBefore(g.version) || other.process == g.process &&
			other.processStart.Equal(g.processStart)
		if isKnown && other.at.After(from) && other.uid != g.uid && !slices.Contains(uids, other.uid) {
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

// pendingSince returns the last record of a decrease that was pending at a time or later.
func (d *decreaseJudge) pendingSince(uid types.UID, from time.Time) (key protectorKey, state atVersion[pendingState], ok bool) {
	for key, truth := range d.protectors {
		for i, p := range slices.Backward(truth.pendings) {
			if p.value.isPending && p.value.uid == uid && (i+1 == len(truth.pendings) || truth.pendings[i+1].at.After(from)) {
				return key, p, true
			}
		}
	}
	return key, state, false
}

// otherPendingDecreases returns the other protectors whose decreases are pending, and which the process of a grant had been shown as pending.
func (d *decreaseJudge) otherPendingDecreases(key protectorKey, g grant) (names []string) {
	for other, truth := range d.protectors {
		seen, now := valueAt(truth.pendings, g.seenVersion).value, latest(truth.pendings).value
		if other.core != key.core || other == key || !seen.isPending || seen.cascade || !now.isPending || now.cascade || now.uid != seen.uid ||
			d.wasGranted(key.core, now.uid) {
			continue
		}
		names = append(names, other.name.Name)
	}
	slices.Sort(names)
	return names
}

// wasGranted reports whether a protector has a grant that may still count.
func (d *decreaseJudge) wasGranted(core string, uid types.UID) bool {
	return d.lastGrant(core, uid).After(time.Now().Add(-d.plan.Window - d.skew))
}

// lastGrant returns when a grant of a protector was last stored.
func (d *decreaseJudge) lastGrant(core string, uid types.UID) (last time.Time) {
	truth := d.grantsOf(core)
	for _, g := range slices.Concat(truth.grants, truth.lost) {
		if g.uid == uid && g.stored.After(last) {
			last = g.stored
		}
	}
	return last
}

// judgeDecrease judges a large decrease that takes effect.
func (d *decreaseJudge) judgeDecrease(key protectorKey, p *v1alpha1.PodProtector, process string, highest, after int) {
	from := d.oldestObservedState(process, time.Now().Add(-maxInFlightRelease))
	if d.grantsOf(key.core).restoredAt.After(from) {
		return // it was decided on state that the restore has undone
	}
	if d.isConfirmed(key, from) {
		d.counts.Confirmed++
		return
	}
	d.counts.Decreases++
	requestedAt := d.grantsOf(key.core).requests[brakeRequestKey{process, p.UID}].at
	if cascade := d.cascadeOf(key); policy.IsGenerated(p) && !cascade.IsZero() && requestedAt.After(cascade) {
		d.fail("%s lowers the floor of protector %s from %d to %d, whose source was deleted by a cascade, without a confirmation",
			process, key.name, highest, after)
	}
	if granted := d.lastGrant(key.core, p.UID); granted.Before(from.Add(-d.plan.Window - d.skew)) {
		d.fail("%s lowers the floor of protector %s from %d to %d without a grant", process, key.name, highest, after)
	}
}
