package judge

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const secondCore = "core-1"

// setUpShares makes the judge judge shares from now on, in two cores that both have the protector. It returns a webhook.
func (h *judgeFixture) setUpShares() *Replica {
	h.shares = newShareJudge(h.history, h.report)
	clear(h.history.protectors) // the other parts do not judge them then
	for _, core := range []string{testCore, secondCore} {
		h.RecordCoreEvent(core, &apiserver.Event{Type: "ADDED", New: must(h.core.Get("podprotectors", h.key))})
	}
	return &Replica{Name: "webhook-0"}
}

// answerShared is an answer of a webhook that allows a removal. over is the denial that it overrides, if it does.
func (h *judgeFixture) answerShared(p *Replica, r *Removal, over removals.VerdictReason) *Removal {
	answer := removals.Answer{}
	if over != "" {
		answer = removals.Answer{Verdict: removals.VerdictForced, Overridden: &removals.Override{Verdict: over}}
	}
	h.JudgeAllowed(p, testCell, r, answer)
	time.Sleep(time.Millisecond)
	return r
}

// createShare creates an open share of the protector of a core, which keeps no pods, with reservations of removals.
func (h *judgeFixture) createShare(core string, reserved ...*Removal) {
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Namespace, Name: "p0." + core}}
	share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "p0", UID: "another", Core: core, Cell: testCell}
	share.Spec.MinAvailable = v1alpha1.Pods(0)
	cell := v1alpha1.PodProtectorCell{CellID: testCell}
	for _, r := range reserved {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{PodUID: r.UID, PodName: r.Pod.Name, Counter: 1})
	}
	share.Status.Cells = []v1alpha1.PodProtectorCell{cell}
	must(h.cell.Create("podprotectors", share, "aggregator-0"))
}

// tolerateDomainLoss makes the protector of a core tolerate the loss of a cell.
func (h *judgeFixture) tolerateDomainLoss(core string) {
	p := must(h.core.Get("podprotectors", h.key)).(*v1alpha1.PodProtector) //nolint:forcetypeassert // the store keeps its kinds apart
	p.Spec.Spread = scenario.ProtectorPlan{MindsLoss: true}.Spread()
	h.RecordCoreEvent(core, &apiserver.Event{Type: "MODIFIED", New: p})
}

func TestTheJudgeExcusesNoMoreOfShares(t *testing.T) {
	noBudget := removals.VerdictReason(quota.DeniedNoBudget)
	const tooFew, uncharged = "after a removal", "did not charge the break-glass removal"
	checkJudge(t, map[string]judgeCase{
		"a break-glass removal that overrode a denial": {3, 3, func(h *judgeFixture) {
			h.applyRemoval(h.answerShared(h.setUpShares(), h.force("a", noBudget), noBudget))
		}, ""},
		"a break-glass removal that overrode no denial": {3, 3, func(h *judgeFixture) {
			h.applyRemoval(h.answerShared(h.setUpShares(), h.force("a", ""), ""))
		}, tooFew},
		"another request for a pod whose break-glass removal overrode a denial": {3, 3, func(h *judgeFixture) {
			p := h.setUpShares()
			h.answerShared(p, h.force("a", noBudget), noBudget)
			h.applyRemoval(h.answerShared(p, h.beginRemoval("a"), ""))
		}, ""},
		"a removal of another pod after a break-glass removal": {3, 3, func(h *judgeFixture) {
			p := h.setUpShares()
			h.applyRemoval(h.answerShared(p, h.force("a", noBudget), noBudget))
			h.applyRemoval(h.answerShared(p, h.beginRemoval("b"), ""))
		}, tooFew},
		"a removal that is reserved with an earlier break-glass removal": {1, 3, func(h *judgeFixture) {
			p := h.setUpShares()
			forced := h.answerShared(p, h.force("a", noBudget), noBudget)
			r := h.beginRemoval("b")
			h.createShare(testCore, forced, r)
			h.answerShared(p, r, "")
		}, ""},
		"a removal that is reserved without an earlier break-glass removal": {1, 3, func(h *judgeFixture) {
			h.reserveAfterForce(time.Second, "")
		}, uncharged},
		"a removal that is reserved with another object than an earlier break-glass removal": {1, 3, func(h *judgeFixture) {
			p := h.setUpShares()
			forced := h.answerShared(p, h.force("a", noBudget), noBudget)
			r := h.beginRemoval("b")
			h.createShare(testCore, r)
			h.createShare(secondCore, forced)
			h.answerShared(p, r, "")
		}, uncharged},
		"a removal that is reserved after the end of an earlier break-glass removal": {1, 3, func(h *judgeFixture) {
			h.reserveAfterForce(scenario.RequestLimit, "")
		}, ""},
		"a removal that is reserved by another webhook": {1, 3, func(h *judgeFixture) {
			h.reserveAfterForce(time.Second, "webhook-1")
		}, ""},
		"a share of a protector that tolerates the loss of a domain": {1, 3, func(h *judgeFixture) {
			h.setUpShares()
			h.tolerateDomainLoss(testCore)
			h.createShare(testCore)
		}, "rule 12"},
		"a share of an equally named protector of another core": {1, 3, func(h *judgeFixture) {
			h.setUpShares()
			h.tolerateDomainLoss(testCore)
			h.createShare(secondCore)
		}, ""},
	})
}

// reserveAfterForce reserves a removal after an uncharged break-glass removal, by another webhook if its name is given.
func (h *judgeFixture) reserveAfterForce(passed time.Duration, other string) {
	p := h.setUpShares()
	h.answerShared(p, h.force("a", removals.VerdictUnreachable), removals.VerdictUnreachable)
	time.Sleep(passed)
	if other != "" {
		p = &Replica{Name: other}
	}
	r := h.beginRemoval("b")
	h.createShare(testCore, r)
	h.answerShared(p, r, "")
}
