package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Rule 13 as the judge applies it. A large decrease is the end of a protector whose floor is above 0, or a floor that falls to half or
// less of the highest one of the window, or another field by which it protects less. Each decrease that a generator makes was confirmed, or was granted
// before:
//
//   - The decrease of a source that a cascade deleted needs a confirmation, if the source had the finalizer of its generator. Without
//     the finalizer, the generator may never see a source that was created and deleted, and the pending decrease is then that of the
//     source before it.
//   - So does a decrease that only the deletion of a policy by a cascade can have caused; see policies.go.
//   - A grant is stored in the ConfigMap of the core before its decrease takes effect, at most a window earlier. If the process is
//     stalled in between, the decrease may be late by the length of the stall.
//   - No window has more grants than the limit, of those that the granting process can know: all that the ConfigMap has ever had since
//     it was created, and all that this process has stored itself. So restarts and several leaders share the limit. When the ConfigMap
//     is deleted, all grants that no running process remembers are lost with it, and the new ConfigMap begins with its own budget.
//   - A grant waited for its quiet period. It was also not one of more pending decreases than the window has left, as far as its process
//     had been shown protectors, or else it was pending for a whole window. A burst lowers no floor before that.
//
// A restore of a core turns back protectors, conditions and grants together, so that all of this holds in the history that the core has
// now. What a process remembers of the lost history may take effect a second time for the same protector: at most one more limit in that
// window. The same holds for what the process decided on just before.
//
// Clocks differ by MaxClockSkew, and times in objects have whole seconds: windows and quiet periods may be shorter by that.

const (
	// MaxClockSkew is how much the clocks of generators may differ.
	MaxClockSkew = time.Second
	// maxInFlightRelease is how long the requests take by which a decided decrease takes effect.
	maxInFlightRelease = 10 * time.Second
)

// decreaseJudge judges large decreases of floors. The lock of the judge guards it.
type decreaseJudge struct {
	report *report
	stalls *stalls
	// sources are the histories of the Deployments.
	sources sourceHistories
	// policies are the histories of the policies.
	policies policyHistories
	evidence *evidence
	floors   *floorHistories
	grants   *grantJudge
}

func newDecreases(s scenario.Scenario, r *report, stalled *stalls, sources sourceHistories) *decreaseJudge {
	plan, skew := s.BrakePlan(), time.Second
	if s.Storm.Weather.Slow > 0 {
		skew += time.Second // by which a record is later than its time
	}
	if slices.ContainsFunc(s.Steps, func(s scenario.Step) bool { return s.What == scenario.JumpClock }) {
		skew += 2 * MaxClockSkew
	}
	floors := &floorHistories{
		stalls: stalled, window: plan.Window, skew: skew, protectors: map[protectorKey]*floorHistory{}, maxProtectors: map[string]int{},
	}
	return &decreaseJudge{
		report: r, stalls: stalled, sources: sources, policies: policyHistories{}, evidence: newEvidence(), floors: floors,
		grants: &grantJudge{report: r, stalls: stalled, floors: floors, plan: plan, skew: skew, histories: map[string]*grantHistory{}},
	}
}

// recordCoreEvent records a change of a core, before anything is judged by it.
func (d *decreaseJudge) recordCoreEvent(core string, e *apiserver.Event) {
	isDeleted := e.Type == watch.Deleted
	switch object := e.New.(type) {
	case *corev1.Namespace:
		d.evidence.terminating[core+"/"+object.Name] = object.DeletionTimestamp != nil
		d.evidence.recordConfirmation(core, "Namespace", object, isDeleted)
	case *corev1.ConfigMap:
		d.grants.recordGrants(core, object, e)
	case *metav1.PartialObjectMetadata:
		d.evidence.ownersIn(core)[object.UID] = !isDeleted && object.DeletionTimestamp == nil
	case *v1alpha1.ProtectionPolicy:
		d.recordPolicy(core, object, e)
	case *v1alpha1.PodProtector:
		d.evidence.recordConfirmation(core, "PodProtector", object, isDeleted)
		d.judgeProtector(core, object, e)
	default:
		if isSource(object) {
			d.evidence.recordConfirmation(core, "Deployment", object, isDeleted)
		}
	}
}

// judgeProtector judges whether a protector may become weaker.
func (d *decreaseJudge) judgeProtector(core string, p *v1alpha1.PodProtector, e *apiserver.Event) {
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	truth := d.floors.of(key)
	after := floorOf(p)
	if e.Type == watch.Deleted {
		after = 0
	}
	process, ours := writingProcess(e)
	// A recreated protector has the state that its keeper saw last.
	if old, isOld := e.Old.(*v1alpha1.PodProtector); isOld && ours && strings.HasPrefix(process, "generator") {
		if what := d.describeDecrease(truth, old, p, e, after); what != "" {
			d.judgeDecrease(key, old, p, e, what)
			d.grants.historyOf(core).usedUntil[p.UID] = grantedGeneration(p)
		}
	}
	d.floors.recordProtector(truth, p, after, e)
	d.floors.recordProtectorCount(core)
}

// describeDecrease describes a large decrease that a change of a protector is, or returns "". after is its floor.
func (d *decreaseJudge) describeDecrease(truth *floorHistory, old, p *v1alpha1.PodProtector, e *apiserver.Event, after int) string {
	isDeleted := e.Type == watch.Deleted
	if highest := d.floors.highest(truth); after < latest(truth.floors).value && 2*after <= highest && (!isDeleted || floorOf(old) > 0) {
		return fmt.Sprintf("lowers the floor of protector %s/%s from %d to %d", p.Namespace, p.Name, highest, after)
	}
	if weaker := describeWeakerFields(old, p); weaker != "" && !isDeleted {
		return fmt.Sprintf("changes protector %s/%s so that it %s", p.Namespace, p.Name, weaker)
	}
	return ""
}

// judgeDecrease judges a large decrease that takes effect.
func (d *decreaseJudge) judgeDecrease(key protectorKey, p, after *v1alpha1.PodProtector, e *apiserver.Event, what string) {
	process, _ := writingProcess(e)
	from := d.stalls.oldestObservedState(process, time.Now().Add(-maxInFlightRelease))
	if d.grants.historyOf(key.core).restoredAt.After(from) {
		return // it was decided on state that the restore has undone
	}
	if d.evidence.isConfirmed(key, from) {
		d.report.counts.Confirmed++
		return
	}
	d.report.counts.Decreases++
	requestedAt := d.grants.historyOf(key.core).requests[brakeRequestKey{process, p.UID}].at
	if cascade := d.sources.of(key).current().cascade; policy.IsGenerated(p) && !cascade.IsZero() && requestedAt.After(cascade) {
		d.report.fail("%s %s, whose source was deleted by a cascade, without a confirmation", process, what)
	}
	if e.Type == watch.Deleted {
		after = nil
	}
	if problem := d.cascadeProblem(key, p, after, from); problem != "" && policy.IsGenerated(p) {
		d.report.fail("%s %s, %s, without a confirmation", process, what, problem)
	}
	if granted := d.grants.lastGrant(key.core, p.UID); granted.Before(from.Add(-d.floors.window - d.floors.skew)) {
		d.report.fail("%s %s without a grant", process, what)
	}
}
