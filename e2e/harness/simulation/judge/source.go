package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// sourceHistory is the true history of a Deployment.
type sourceHistory struct {
	// states are all of its states, oldest first.
	states []sourceState
	// deletionUndone is when its deletion was last undone, by a restore or because it was recreated.
	deletionUndone time.Time
	// vanishingUndone is when it last existed again after it had vanished.
	vanishingUndone time.Time
}

// sourceState is the true state of a Deployment from a version on.
type sourceState struct {
	version uint64
	at      time.Time
	// released reports that the protector may be released: the Deployment is being deleted, was deleted, or does not ask for protection.
	released bool
	// vanished reports that it ended without a deletion.
	vanished bool
	// cascade is when a cascade deleted it; zero if none did.
	cascade time.Time
	// object is its last state.
	object client.Object
}

func (s *sourceHistory) current() sourceState {
	if len(s.states) == 0 {
		return sourceState{}
	}
	return s.states[len(s.states)-1]
}

// hasVanishedSince reports whether the Deployment does not exist without a deletion, or did at a time or later.
func (s *sourceHistory) hasVanishedSince(from time.Time) bool {
	return s.current().vanished || s.vanishingUndone.After(from)
}

// wasPredecessorReleased reports whether the Deployment of that name before the current one was released.
func (s *sourceHistory) wasPredecessorReleased() bool {
	for _, state := range slices.Backward(s.states) {
		if state.object.GetUID() != s.current().object.GetUID() {
			return state.released
		}
	}
	return false
}

// restore returns the history to a version.
func (s *sourceHistory) restore(version uint64) {
	if s.current().vanished {
		s.vanishingUndone = time.Now()
	}
	if s.current().released {
		s.deletionUndone = time.Now()
	}
	s.states = slices.DeleteFunc(s.states, func(state sourceState) bool { return state.version > version })
}

// sourceHistories are the histories of the Deployments, by their protectors.
type sourceHistories map[protectorKey]*sourceHistory

// of returns the history of the Deployment of a protector.
func (s sourceHistories) of(protector protectorKey) *sourceHistory {
	if s[protector] == nil {
		s[protector] = &sourceHistory{}
	}
	return s[protector]
}

// recordSource records whether the Deployment's protector may be released: from the start of its deletion until another Deployment
// exists.
func (j *lifecycleJudge) recordSource(core string, e *apiserver.Event) {
	j.report.trace.Add("%s: Deployment %s %s by %s", core, e.New.GetName(), strings.ToLower(string(e.Type)), writerOrSimulator(e.By))
	truth := j.sources.of(protectorKey{core, scenario.ProtectorOf(client.ObjectKeyFromObject(e.New))})
	before, now := truth.current(), sourceState{version: e.Version, at: time.Now(), object: e.New}
	deleted := e.New.GetDeletionTimestamp() != nil
	switch {
	case e.Type == watch.Deleted:
		// One without a finalizer is removed at once, and a generator may never have seen it: its protector may be held for the one
		// before. If it vanishes, a generator cannot distinguish that from a deletion, and may release the protector if the one before was deleted.
		isUnheld := !slices.Contains(e.New.GetFinalizers(), v1alpha1.FinalizerSource)
		now.released = before.released || !deleted && e.By != "" || isUnheld && truth.wasPredecessorReleased()
		now.vanished, now.cascade = e.By == "" || !deleted, before.cascade
	case deleted && before.object != nil && before.object.GetDeletionTimestamp() != nil:
		now.released, now.cascade = true, before.cascade
	case deleted:
		// A user who had removed the label for protection before meant the release, regardless of what then deletes the Deployment.
		if now.released = true; !before.released && j.evidence.isCascade(core, e.New) {
			now.cascade = time.Now()
		}
	default:
		now.released = !scenario.AsksForProtection(e.New)
	}
	if before.released && !now.released {
		truth.deletionUndone = time.Now()
	}
	if before.vanished && !now.vanished {
		truth.vanishingUndone = time.Now()
	}
	truth.states = append(truth.states, now)
}

// judgeProtectorDeletion judges the end of a protector. Of our components only the generator ends one, and only when its Deployment is deleted, or
// vanished and a user confirms the release. If a restore undid that, requests that the generator had begun may still end it for a while.
func (j *lifecycleJudge) judgeProtectorDeletion(core string, e *apiserver.Event) {
	if p, ok := e.Old.(*v1alpha1.PodProtector); ok && p.DeletionTimestamp != nil && !policy.IsGenerated(p) {
		return // a user has deleted it
	}
	key := protectorKey{core, client.ObjectKeyFromObject(e.New)}
	by, isOurs := writingProcess(e)
	from := j.stalls.oldestObservedState(by, time.Now().Add(-maxInFlightRelease))
	if isOurs && !j.isReleasable(key, from) && j.sources.of(key).deletionUndone.Before(from) {
		j.report.fail("%s deleted protector %s/%s, but no client deleted its Deployment, or confirmed the release", e.By, core, e.New.GetName())
	}
}

// isReleasable reports whether the Deployment of a protector was deleted, or had vanished at a time or later and a user confirmed the release, or asks for
// protection by a policy alone that was deleted.
func (j *lifecycleJudge) isReleasable(key protectorKey, from time.Time) bool {
	source := j.sources.of(key)
	if object := source.current().object; object != nil && object.GetLabels()[v1alpha1.LabelProtect] == "" && j.policies.of(key).mayRelease(from) {
		return true
	}
	return source.current().released || source.hasVanishedSince(from) && j.evidence.isConfirmed(key, from)
}

// writingProcess returns the process that made a change; ours is false for users and other controllers.
func writingProcess(e *apiserver.Event) (process string, ours bool) {
	process, _, ours = strings.Cut(e.By, "@")
	return process, ours
}

// isSource reports whether an object is a Deployment.
func isSource(o client.Object) bool {
	_, ok := o.(*appsv1.Deployment)
	return ok
}

// unservedSource returns which Deployment lacks the protector that it should have, or which protector should have been released; "" if
// none.
func (cv *Convergence) unservedSource() string {
	for _, plan := range cv.Scenario.Sources() {
		if problem := cv.sourceProblem(plan); problem != "" {
			return fmt.Sprintf("%s of Deployment %s", problem, plan.Key())
		}
	}
	return ""
}

func (cv *Convergence) sourceProblem(plan scenario.SourcePlan) string {
	core := cv.Cores[0]
	stored, absent := core.Store.Get("podprotectors", plan.ProtectorKey())
	object, gone := core.Store.Get("deployments", plan.Key())
	p, _ := stored.(*v1alpha1.PodProtector)
	cv.Judge.mu.Lock()
	lost := cv.Judge.history.protectors[protectorKey{core.Name, plan.ProtectorKey()}]
	isStuck := lost != nil && lost.isLost() && !cv.isRecreatable(lost) // its release needs a confirmation, and cannot be recorded
	source := cv.Judge.lifecycles.sources.of(protectorKey{core.Name, plan.ProtectorKey()})
	truth := source.current()
	d := cv.Judge.decreases
	key := protectorKey{core.Name, plan.ProtectorKey()}
	isConfirmed := d.evidence.isConfirmed(key, time.Now())
	isHeld := absent == nil && !isConfirmed &&
		(d.isHeldByPolicy(key, p) || d.isHeldCascade(core.Name, p, truth) || d.isReleaseUndone(core.Name, p, truth) || d.isRecreationUndone(core.Name, p, source))
	deployment, _ := object.(*appsv1.Deployment)
	isLabeled := gone == nil && deployment.Labels[v1alpha1.LabelProtect] != ""
	isWanted := isLabeled || gone == nil && deployment.Labels[scenario.PolicyLabel] != "" && !d.policies.of(key).current().deleted
	isRetained := absent == nil && gone == nil && (!isWanted || d.policies.of(key).current().deleted) && d.isRetained(key, p, isLabeled)
	cv.Judge.mu.Unlock()
	switch {
	case gone == nil && deployment.DeletionTimestamp != nil && isStuck:
		return ""
	case gone == nil && deployment.DeletionTimestamp != nil:
		return "the finalizer is not removed"
	case isRetained:
		return ""
	case gone == nil && !isWanted && absent == nil && !isHeld:
		return "the protector exists, but neither a label nor a policy requests it:" + describePending(p)
	case gone == nil && !isWanted:
		return ""
	case gone == nil && absent != nil:
		return "the protector does not exist"
	case gone != nil && absent == nil && truth.released && !truth.vanished && !isHeld:
		return "the protector still exists after the deletion:" + describePending(p)
	case gone != nil && absent == nil && truth.vanished && isConfirmed && policy.IsGenerated(p):
		return "the protector still exists, but a user confirmed its release:" + describePending(p)
	case gone == nil && !isHeld:
		return cv.protectorMismatch(deployment, p)
	}
	return ""
}

func (cv *Convergence) protectorMismatch(d *appsv1.Deployment, p *v1alpha1.PodProtector) string {
	origin := policy.Origin{}
	stored, err := cv.Cores[0].Store.Get(apiserver.Policies, types.NamespacedName{Namespace: d.Namespace, Name: scenario.PolicyName})
	if rule, ok := stored.(*v1alpha1.ProtectionPolicy); ok && err == nil && rule.DeletionTimestamp == nil && d.Labels[scenario.PolicyLabel] != "" {
		origin = policy.NewPolicy(rule).OriginFor(scenario.DeploymentKind().GroupKind())
	}
	all, err := policy.Protectors(policy.Source{Kind: scenario.DeploymentKind(), Object: d}, policy.Deployments{}, origin)
	if err != nil {
		return err.Error()
	}
	wanted := all[0]
	if got, want := floorOf(p), floorOf(wanted.Object); got != want {
		return fmt.Sprintf("floor %d, want %d:%s", got, want, describePending(p))
	}
	if got, want := p.Spec.MinReadySeconds, wanted.Object.Spec.MinReadySeconds; got != want {
		return fmt.Sprintf("minReadySeconds %d, want %d:%s", got, want, describePending(p))
	}
	if weaker := weakerThanRule(p, &origin.ProtectionRule); len(weaker) > 0 || !policy.HasOrigin(p, origin) {
		return fmt.Sprintf("weaker than the rule in %v, or not by the rule of %q:%s", weaker, origin.Policy, describePending(p))
	}
	if pending := pendingOf(p); pending != nil {
		return "a decrease is pending that the Deployment does not request:" + describePending(p)
	}
	return ""
}
