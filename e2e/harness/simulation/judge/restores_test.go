package judge

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// restoreCell returns the cell to a version.
func (h *judgeFixture) restoreCell(version uint64) {
	h.cell.Restore(version, version, func() { h.RecordCellRestore(testCell, version) })
}

// startLeadership records a leader that began after the restores of the cell so far.
func (h *judgeFixture) startLeadership(epoch int64) {
	h.history.epochRestores[testCore+"/"+testCell] = map[int64]int{epoch: h.RestoresOf(testCell)}
}

// restoreCore returns the core to a version, and waits a second before and after that. The webhook has seen all changes.
func (h *judgeFixture) restoreCore(version uint64) { h.restoreCoreOf(version, h.core.Version()) }

// restoreCoreOf does the same, except that the webhook has seen all changes only up to the version heard.
func (h *judgeFixture) restoreCoreOf(version, heard uint64) {
	time.Sleep(time.Second)
	next := h.core.Version() + CoreVersionBump
	h.core.Restore(version, next, func() { h.RecordLostDecisions(testCore, version, map[string]uint64{"webhook-0": heard}) })
	h.RecordCoreRestore(&Cluster{Name: testCore, Store: h.core}, version, next)
	time.Sleep(time.Second)
}

// startWebhook records that the webhook starts now.
func (h *judgeFixture) startWebhook() { h.history.processStarts["webhook-0"] = time.Now() }

// admitTwice admits a removal, restores the core to before it, and calls between. It then admits another removal by the restored counts.
// The first removal takes effect before the second.
func (h *judgeFixture) admitTwice(between func()) {
	version := h.core.Version()
	first := h.reserve(h.beginRemoval("a"))
	h.restoreCore(version)
	between()
	second := h.reserve(h.beginRemoval("b"))
	h.applyRemoval(first)
	h.applyRemoval(second)
}

// raiseByRestore admits the removals of pods a and b under a floor of 1, restores the core to when it had a higher one, and reserves another removal of a.
// It returns both removals of a. That of b has taken effect.
func (h *judgeFixture) raiseByRestore() (first, second *Removal) {
	version := h.core.Version()
	h.setFloor(1)
	first, other := h.reserve(h.beginRemoval("a")), h.reserve(h.beginRemoval("b"))
	h.restoreCore(version)
	second = h.reserve(h.beginRemoval("a"))
	h.applyRemoval(other)
	return first, second
}

// writeCountIn assigns the counts to a leadership that began at a version of the core.
func (h *judgeFixture) writeCountIn(leadership uint64) {
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.TermVersion = uintText(leadership) })
}

// This test shows which effects of restores of a cell and of the core the judge excuses, and which it does not.
func TestTheJudgeExcusesNoMoreOfRestores(t *testing.T) {
	const overAdmission, dropped, unreserved = "over-admission", "dropped the reservation", "holds no reservation"
	exempt := &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "other"}}
	checkJudge(t, map[string]judgeCase{
		"a removal that a floor allowed which a restore has raised, although its pod is reserved again": {2, 3, func(h *judgeFixture) {
			first, _ := h.raiseByRestore()
			h.applyRemoval(first)
		}, ""},
		"a removal of after the restore": {2, 3, func(h *judgeFixture) {
			_, second := h.raiseByRestore()
			h.applyRemoval(second)
		}, overAdmission},
		"a pod that a restore of the cell took after the decision": {3, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.createPod(true)
			h.writeCount(4)
			r := h.reserve(h.beginRemoval("a"))
			h.restoreCell(version)
			h.applyRemoval(r)
		}, ""},
		"a pod that a restore of the cell took before the decision": {3, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.createPod(true)
			h.writeCount(4)
			h.restoreCell(version)
			h.startLeadership(2)
			h.writeCountAs(3, version, 2)
			h.remove("a")
		}, overAdmission},
		"a count of before a restore of the cell": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.createPod(true)
			later := h.cell.Version()
			h.restoreCell(version)
			h.writeCountAt(4, later)
		}, ""},
		"a count of before a restore by a leader that began after it": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.createPod(true)
			later := h.cell.Version()
			h.restoreCell(version)
			h.startLeadership(2)
			h.writeCountAs(4, later, 2)
		}, "says that 4 pods"},
		"a count of before a restore without a pod whose readiness it has undone": {1, 3, func(h *judgeFixture) {
			pod := h.createPod(false)
			version := h.cell.Version()
			h.setReady(pod.Name, true)
			later := h.cell.Version()
			h.restoreCell(version)
			h.writeCountAt(3, later)
		}, ""},
		"a count of before a restore without a pod that was ready before": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.createPod(false)
			later := h.cell.Version()
			h.restoreCell(version)
			h.writeCountAt(2, later)
		}, "says that 2 pods"},
		"a count without a pod that was deleted before a restore": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.remove("a")
			h.restoreCell(version)
			h.writeCountAt(2, version)
		}, ""},
		"a count without a pod that was deleted before a restore by a leader that began after it": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.remove("a")
			h.restoreCell(version)
			h.startLeadership(2)
			h.writeCountAs(2, version, 2)
		}, "says that 2 pods"},
		"an answer for a pod that a restore brought back, by counts of before": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.remove("a")
			h.writeCount(2)
			h.dropReservations("aggregator-0@core-0")
			h.restoreCell(version)
			h.allow(h.beginRemoval("a"))
		}, ""},
		"an answer for a pod that a restore brought back, by later counts": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.remove("a")
			h.writeCount(2)
			h.dropReservations("aggregator-0@core-0")
			h.restoreCell(version)
			h.touchPod("b") // a version that the removal had before
			h.startLeadership(2)
			h.writeCountAs(3, h.cell.Version(), 2)
			h.allow(h.beginRemoval("a"))
		}, unreserved},

		"an answer whose reservation was lost with the core": {1, 3, func(h *judgeFixture) {
			version := h.core.Version()
			r := h.reserve(h.beginRemoval("a"))
			h.restoreCore(version)
			h.allow(r)
		}, ""},
		"an answer to a request that came after the restore": {1, 3, func(h *judgeFixture) {
			version := h.core.Version()
			h.reserve(h.beginRemoval("a"))
			h.restoreCore(version)
			h.allow(h.beginRemoval("a"))
		}, unreserved},
		"an answer for a pod that was never reserved before the restore": {1, 3, func(h *judgeFixture) {
			version := h.core.Version()
			h.reserve(h.beginRemoval("a"))
			r := h.beginRemoval("b")
			h.restoreCore(version)
			h.allow(r)
		}, unreserved},
		"a restored reservation that leaves while a removal of before may take effect": {1, 3, func(h *judgeFixture) {
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
			h.restoreCore(h.core.Version())
			h.dropReservations("aggregator-0@core-0")
		}, ""},
		"a restored reservation that leaves while a later removal may take effect as well": {1, 3, func(h *judgeFixture) {
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
			h.restoreCore(h.core.Version())
			h.RecordAdmitted(testCell, h.beginRemoval("a"))
			h.dropReservations("aggregator-0@core-0")
		}, dropped},

		"an answer of a webhook that began when its protector was lost, before a restore": {1, 3, func(h *judgeFixture) {
			h.loseProtectorBefore(func() { h.startWebhook() })
		}, ""},
		"an answer of a webhook that began before its protector was lost":            {1, 3, func(h *judgeFixture) { h.loseProtectorBefore(func() {}) }, unreserved},
		"an answer of a webhook that missed the protector because of a restore":      {1, 3, func(h *judgeFixture) { h.restoreBeforeProtector(1) }, ""},
		"an answer of a webhook that had seen a protector before a restore undid it": {1, 3, func(h *judgeFixture) { h.restoreBeforeProtector(0) }, unreserved},

		"the readiness race of a pod whose earlier reservation a restore brought back":   {2, 3, func(h *judgeFixture) { h.raceAfterRestore(false) }, ""},
		"a removal of an available pod whose earlier reservation a restore brought back": {2, 3, func(h *judgeFixture) { h.raceAfterRestore(true) }, overAdmission},

		"a decision by lost counts of a webhook that began after the restore":  {2, 3, func(h *judgeFixture) { h.admitTwice(h.startWebhook) }, ""},
		"a decision by lost counts of a webhook that began before the restore": {2, 3, func(h *judgeFixture) { h.admitTwice(func() {}) }, overAdmission},
		"a decision by counts of after the restore of a webhook that began later": {2, 3, func(h *judgeFixture) {
			h.admitTwice(func() { h.startWebhook(); h.writeCountIn(h.core.Version()) })
		}, overAdmission},
		"a pod removed while its protector did not exist": {2, 3, func(h *judgeFixture) { h.removeWithoutProtector("a"); h.remove("b") }, ""},
		"a pod that exists since its protector was recreated": {2, 3, func(h *judgeFixture) {
			h.removeWithoutProtector("a")
			h.remove("b")
			h.remove("c")
		}, "too few"},
		"a pod removed while its protector did not exist, and two removals": {1, 3, func(h *judgeFixture) { h.removeWithoutProtector("a"); h.remove("b"); h.remove("c") }, ""},
		"a pod removed while its protector did not exist, and that a count leaves out": {2, 3, func(h *judgeFixture) {
			h.removeWithoutProtector("a")
			h.writeCount(2)
			h.remove("b")
		}, overAdmission},
		"a pod removed while another protector did not exist": {2, 3, func(h *judgeFixture) {
			other := h.addProtector()
			version := h.core.Version()
			must(h.core.Delete("podprotectors", other, "", "user"))
			h.remove("a")
			h.restoreCore(version)
			h.remove("b")
		}, overAdmission},
		"a count in the transition of a changed protector that a restore brought back": {1, 3, func(h *judgeFixture) {
			h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.ExemptPodSelector = exempt })
			h.countAfterReplacement()
		}, ""},
		"a count in a transition of an unchanged protector that a restore brought back": {1, 3, func(h *judgeFixture) {
			other := h.addProtector()
			must(h.core.Update("podprotectors", other, "", "user", func(o client.Object) error {
				o.(*v1alpha1.PodProtector).Spec.ExemptPodSelector = exempt //nolint:forcetypeassert // the store keeps its kinds apart
				return nil
			}))
			h.countAfterReplacement()
		}, "says that 0 pods"},
	})
}

// countAfterReplacement replaces the protector, changes the new one, and restores the core to the old one. The counts of that are restricted by an
// earlier spec: an aggregator forgets the specs of a protector that was deleted.
func (h *judgeFixture) countAfterReplacement() {
	version := h.core.Version()
	must(h.core.Delete("podprotectors", h.key, "", "user"))
	p := scenario.ProtectorPlan{Name: h.key.Name, Label: "app", Floor: 1}.Object()
	must(h.core.Create("podprotectors", p, "user"))
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 1 })
	h.restoreCore(version)
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.InTransition = true })
	h.writeCount(0)
}

// raceAfterRestore reviews the removal of a pod that becomes available only after the review, or is available if readyCondition. The removal
// takes effect after a restore of the core, which brings back a reservation that was for another request. Another removal was decided in
// the lost time, when the pod counted and was not reserved.
func (h *judgeFixture) raceAfterRestore(isReady bool) {
	h.reserve(h.beginRemoval("a"))
	version := h.core.Version()
	h.dropReservations("aggregator-0@core-0")
	h.setReady("a", isReady)
	r := h.beginRemoval("a")
	h.setReady("a", true)
	h.writeCount(3)
	other := h.reserve(h.beginRemoval("b"))
	h.restoreCore(version)
	h.applyRemoval(r)
	h.applyRemoval(other)
}

// addFinalizer gives the protector the finalizer, so that keepers remember it when it vanishes.
func (h *judgeFixture) addFinalizer() {
	h.updateProtector("generator-0@core-0", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{v1alpha1.FinalizerHold} })
}

// loseProtectorBefore loses the protector, calls between, and restores the core to that state. Then a webhook answers, which started before the
// loss unless between starts it.
func (h *judgeFixture) loseProtectorBefore(between func()) {
	h.addFinalizer()
	h.startWebhook()
	time.Sleep(time.Second)
	h.core.Lose("podprotectors", h.key)
	time.Sleep(time.Second)
	between()
	h.restoreCore(h.core.Version())
	h.allowBy("webhook-0")
}

// restoreBeforeProtector restores the core to before the protector existed, and lets the webhook answer. The webhook's watch is behind by the given number
// of versions when the protector begins to cover the pods.
func (h *judgeFixture) restoreBeforeProtector(behind uint64) {
	h.startWebhook()
	time.Sleep(time.Second)
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 1 })
	heard := h.core.Version() - behind
	h.addFinalizer()
	h.writeCount(3)
	h.restoreCoreOf(0, heard)
	h.allowBy("webhook-0")
}

// loseAfterRestore restores the core to when the protector covered the pods, and loses the protector. The webhook has heard of the restored core, or
// not. Then it answers, and knows that the protector is gone.
func (h *judgeFixture) loseAfterRestore(heard bool) {
	h.addFinalizer()
	h.startWebhook()
	time.Sleep(time.Second)
	version := h.core.Version()
	h.updateProtector("user", func(p *v1alpha1.PodProtector) {
		p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "y"}}
	})
	h.restoreCore(version)
	shown := version
	if heard {
		shown = h.core.Version()
	}
	h.core.Lose("podprotectors", h.key)
	h.allowAfterList(shown)
}

// restoreLost restores the core to before the protector was lost. The webhook started before or after that, and answers before it has heard of the
// restored core.
func (h *judgeFixture) restoreLost(startAfter bool) {
	h.addFinalizer()
	version := h.core.Version()
	start := func() {
		time.Sleep(time.Second)
		h.startWebhook()
		time.Sleep(time.Second)
	}
	if !startAfter {
		start()
	}
	h.core.Lose("podprotectors", h.key)
	if startAfter {
		start()
	}
	heard := h.core.Version()
	h.restoreCoreOf(version, heard)
	r := h.beginRemoval("a")
	r.Webhook, r.WebhookStart = "webhook-0", h.history.processStarts["webhook-0"]
	r.SeenVersions = map[string]uint64{testCore: heard}
	h.allow(r)
}

// loseAfterSelectorChange changes which pods the protector covers, and loses it. The webhook lists the protectors after that. Its watch has shown the
// change, or not.
func (h *judgeFixture) loseAfterSelectorChange(shown bool) {
	h.addFinalizer()
	h.startWebhook()
	time.Sleep(time.Second)
	after := h.core.Version()
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 1 })
	if shown {
		after = h.core.Version()
	}
	h.core.Lose("podprotectors", h.key)
	h.allowAfterList(after)
}

// allowAfterList is an answer without a reservation of a webhook that had received the protectors up to a version, and has listed them since.
func (h *judgeFixture) allowAfterList(version uint64) {
	r := h.beginRemoval("a")
	r.Webhook, r.WebhookStart = "webhook-0", h.history.processStarts["webhook-0"]
	r.Skips = map[string][]apiserver.Skip{testCore: {{After: version, To: h.core.Version()}}}
	h.allow(r)
}

// allowBy is an answer of a webhook without a reservation.
func (h *judgeFixture) allowBy(webhook string) {
	r := h.beginRemoval("a")
	r.Webhook, r.WebhookStart = webhook, h.history.processStarts[webhook]
	h.allow(r)
}

// removeWithoutProtector deletes the protector, removes a pod, and restores the core to when the protector existed.
func (h *judgeFixture) removeWithoutProtector(pod string) {
	version := h.core.Version()
	must(h.core.Delete("podprotectors", h.key, "", "user"))
	h.applyRemoval(h.beginRemoval(pod))
	h.restoreCore(version)
}

// A loss to one protector is none to another, and a removal that consumed no budget does not excuse one that did.
func TestTheJudgeExcusesNoMoreOfLosses(t *testing.T) {
	const overAdmission, dropped, unreserved = "over-admission", "dropped the reservation", "holds no reservation"
	noBudget := removals.VerdictReason(quota.DeniedNoBudget)
	checkJudge(t, map[string]judgeCase{
		"a pod that died after the decision": {3, 3, func(h *judgeFixture) {
			h.createPod(true)
			h.writeCount(4)
			r := h.reserve(h.beginRemoval("a"))
			h.setReady("b", false)
			h.applyRemoval(r)
		}, ""},
		"a pod that died before the decision, and that its count leaves out": {2, 3, func(h *judgeFixture) {
			h.setReady("b", false)
			h.writeCount(2)
			h.remove("a")
		}, overAdmission},
		"a loss to another protector": {2, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setReady("b", false)
			h.history.cells[testCell].losses[0].protector = newWatched(testCore)
			h.applyRemoval(r)
		}, overAdmission},
		"an answer of a webhook that heard nothing of a restored core before the protector vanished":             {1, 3, func(h *judgeFixture) { h.loseAfterRestore(false) }, ""},
		"an answer of a webhook that heard of a restored core before the protector vanished":                     {1, 3, func(h *judgeFixture) { h.loseAfterRestore(true) }, "holds no reservation"},
		"an answer of a webhook that started while a protector was lost, and heard nothing of the restored core": {1, 3, func(h *judgeFixture) { h.restoreLost(true) }, ""},
		"an answer of a webhook that started before a protector was lost that a restore brought back":            {1, 3, func(h *judgeFixture) { h.restoreLost(false) }, "holds no reservation"},
		"an answer of a webhook that listed a protector as gone before it heard of its selector":                 {1, 3, func(h *judgeFixture) { h.loseAfterSelectorChange(false) }, ""},
		"an answer of a webhook that heard of a selector and listed its protector as gone":                       {1, 3, func(h *judgeFixture) { h.loseAfterSelectorChange(true) }, "holds no reservation"},
		"a removal that one protector did not reserve and the other did":                                         {2, 3, func(h *judgeFixture) { h.removeUnseen(true) }, ""},
		"a removal that one protector did not reserve, for which the other had no budget": {2, 3, func(h *judgeFixture) {
			h.setReady("c", false)
			h.writeCount(2)
			h.removeUnseen(true)
		}, overAdmission},
		"an unreserved removal by a webhook that had not seen the other protector": {2, 3, func(h *judgeFixture) { h.removeUnseen(false) }, "never reserved it"},
		"a removal by an earlier spec that did not count the pod":                  {2, 3, func(h *judgeFixture) { h.removeYoungByEarlierSpec(time.Second) }, ""},
		"a removal by an earlier spec that did not count the pod, replaced long before": {2, 3, func(h *judgeFixture) {
			h.removeYoungByEarlierSpec(scenario.AdmissionDeadline)
		}, "excuses another removal"},

		"a reservation that leaves beside a removal of a pod that was too young for an earlier spec": {1, 3, func(h *judgeFixture) {
			h.dropBesideYoung(50 * time.Second)
		}, ""},
		"a reservation that leaves beside a removal of a pod that counted by an earlier spec": {1, 3, func(h *judgeFixture) {
			h.dropBesideYoung(150 * time.Second)
		}, dropped},

		"a refusal by a protector that ended shortly before": {1, 3, func(h *judgeFixture) { h.denyAfterDeletion(budgetDelay - time.Second) }, ""},
		"a refusal by a protector that ended long before":    {1, 3, func(h *judgeFixture) { h.denyAfterDeletion(budgetDelay) }, "has had budget for"},

		"an answer by force while the core is unreachable": {3, 3, func(h *judgeFixture) { h.allowForced(removals.VerdictUnreachable) }, ""},
		"an answer by force for lack of budget":            {3, 3, func(h *judgeFixture) { h.allowForced(noBudget) }, unreserved},
		"an answer of a webhook that has not seen the floor": {0, 3, func(h *judgeFixture) {
			time.Sleep(time.Minute)
			r := h.beginRemoval("a")
			h.setFloor(1)
			r.RequestedAt = r.RequestedAt.Add(time.Nanosecond)
			h.allow(r)
		}, ""},
		"an answer of a webhook that has seen the floor": {0, 3, func(h *judgeFixture) {
			time.Sleep(time.Minute)
			h.setFloor(1)
			h.allow(h.beginRemoval("a"))
		}, unreserved},
		"an answer under a floor of zero":                        {0, 3, func(h *judgeFixture) { h.allow(h.beginRemoval("a")) }, ""},
		"a reservation that leaves of a pod under a floor of 0":  {1, 3, func(h *judgeFixture) { h.setFloor(0); h.dropAdmitted() }, ""},
		"a reservation that leaves of a pod under another floor": {1, 3, func(h *judgeFixture) { h.dropAdmitted() }, dropped},
		"a reservation that leaves of an update that may still be stored": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.update("a", true))
			h.setReady("b", false)
			h.setReady("b", true)
			r.stored = false
			h.dropReservations("aggregator-0@core-0")
		}, dropped},
		"a reservation that leaves of an update that is stored": {1, 3, func(h *judgeFixture) {
			h.reserve(h.update("a", true))
			h.touchPod("a")
			h.dropReservations("aggregator-0@core-0")
		}, dropped},
		"a reservation that leaves of a pod that is not ready": {1, 3, func(h *judgeFixture) {
			pod := h.createPod(false)
			h.writeCount(3)
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval(pod.Name)))
			h.dropReservations("aggregator-0@core-0")
		}, ""},
		"a count that leaves a pod out in a transition": {1, 3, func(h *judgeFixture) {
			h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
			h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.InTransition = true })
			h.writeCount(0)
		}, ""},
		"a count that leaves a pod out without a change of the spec": {1, 3, func(h *judgeFixture) {
			h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.InTransition = true })
			h.writeCount(2)
		}, "says that 2 pods"},
	})
}

// touchPod creates another version of a pod, which counts as before.
func (h *judgeFixture) touchPod(pod string) {
	must(h.cell.Update("pods", h.podKey(pod), "", "", func(o client.Object) error {
		o.SetAnnotations(map[string]string{"example.com/touched": "true"})
		return nil
	}))
}

// dropAdmitted drops a reservation while its removal may take effect.
func (h *judgeFixture) dropAdmitted() {
	time.Sleep(time.Minute)
	h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
	h.dropReservations("aggregator-0@core-0")
}

// addProtector creates a second protector of the same pods, which the judge evaluates first.
func (h *judgeFixture) addProtector() types.NamespacedName {
	p := scenario.ProtectorPlan{Name: "a0", Label: "app", Floor: 1}.Object()
	p.Generation = 1
	must(h.core.Create("podprotectors", p, "user"))
	return client.ObjectKeyFromObject(p)
}

// denyAfterDeletion denies a removal for lack of budget of a second protector, which was deleted passed before.
func (h *judgeFixture) denyAfterDeletion(passed time.Duration) {
	other := h.addProtector()
	time.Sleep(time.Minute)
	must(h.core.Delete("podprotectors", other, "", "user"))
	time.Sleep(passed)
	h.JudgeDenial(testCell, h.beginRemoval("a"), removals.Answer{
		Verdict: removals.VerdictReason(quota.DeniedNoBudget), DeniedBy: &removals.Charge{Core: testCore, Key: other},
	})
}

// removeUnseen removes a pod through a webhook that has not seen a second protector. If reserved is set, the webhook has reserved the
// removal with the first protector.
func (h *judgeFixture) removeUnseen(reserved bool) {
	r := h.beginRemoval("a")
	h.addProtector()
	if reserved {
		h.reserve(r)
	}
	h.applyRemoval(r)
}

// removeYoungByEarlierSpec removes a young pod through a webhook that uses a spec by which the pod did not count, passed after the spec was
// changed.
func (h *judgeFixture) removeYoungByEarlierSpec(passed time.Duration) {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 100 })
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
		p.Status.Cells[0].Aggregation.CountedSpec, p.Status.Cells[0].Aggregation.CountedReplicas = quota.CountedSpec(&p.Spec), 0
		p.Status.Cells[0].Aggregation.LastEventTime = metav1.NowMicro()
	})
	time.Sleep(50 * time.Second)
	r := h.beginRemoval("a")
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
	time.Sleep(passed)
	h.applyRemoval(r)
	if len(h.history.cells[testCell].losses) > 0 {
		h.Fail("the removal excuses another removal")
	}
}

// dropBesideYoung drops a finished reservation while a removal of its pod may still take effect. A webhook admitted that removal by a spec that counts
// pods from an age of 100 seconds.
func (h *judgeFixture) dropBesideYoung(age time.Duration) {
	h.RecordFinished(h.reserve(h.beginRemoval("a")))
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 100 })
	h.writeCount(0)
	time.Sleep(age)
	h.RecordAdmitted(testCell, h.beginRemoval("a"))
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
	time.Sleep(time.Minute)
	h.dropReservations("aggregator-0@core-0")
}

// A keeper must recreate a protector that it has seen, unless no API server would accept it.
func TestTheJudgeKnowsWhatMayReturn(t *testing.T) {
	for name, c := range map[string]struct {
		unheard string        // the process that has not seen the protector
		deleted time.Duration // when its namespace is deleted after the loss; 0 is never
		want    bool
	}{
		"a protector that vanished":                                     {"", 0, true},
		"a protector that a webhook has not seen":                       {"webhook-0", 0, true},
		"a protector that no keeper has seen":                           {"generator-0", 0, false},
		"a protector whose namespace is deleted shortly after its loss": {"", maxKeeperDelay - time.Second, false},
		"a protector whose namespace is deleted long after its loss":    {"", maxKeeperDelay + time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newJudgeFixture(1, 1)
				converged := &Convergence{
					Judge: h.Judge, Cores: []*Cluster{{Name: testCore, Store: h.core}}, Generators: func() []string { return []string{"generator-0"} },
				}
				space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scenario.Namespace, Finalizers: []string{"kubernetes"}}}
				must(h.core.Create(apiserver.Namespaces, space, ""))
				lost := h.history.protectors[protectorKey{testCore, h.key}]
				lost.lostAt, lost.unseenBy = time.Now(), map[string]bool{c.unheard: true}
				if c.deleted > 0 {
					time.Sleep(c.deleted)
					must(h.core.Delete(apiserver.Namespaces, client.ObjectKeyFromObject(space), "", "user"))
				}
				if got := converged.isRecreatable(lost); got != c.want {
					t.Errorf("isRecreatable() = %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A generator releases the protector of a Deployment that vanished only if a user confirms it.
func TestTheJudgeKnowsWhatMayBeReleased(t *testing.T) {
	const unasked = "no client deleted its Deployment"
	source := types.NamespacedName{Namespace: scenario.Namespace, Name: scenario.SourceName}
	confirm := func(h *judgeFixture, resource string, key types.NamespacedName) {
		must(h.core.Update(resource, key, "", scenario.User, func(o client.Object) error {
			scenario.SetConfirmation("true")(o)
			return nil
		}))
	}
	vanish := func(h *judgeFixture) { h.core.Lose("deployments", source) }
	recreate := func(h *judgeFixture) { must(h.core.Create("deployments", newSource(source), scenario.User)) }
	replace := func(h *judgeFixture) {
		must(h.core.Delete("deployments", source, "", scenario.User))
		recreate(h)
		time.Sleep(2 * maxInFlightRelease)
	}
	cases := map[string]judgeCase{}
	for name, c := range map[string]struct {
		play func(h *judgeFixture)
		want string
	}{
		"a Deployment that vanished": {vanish, unasked},
		"a Deployment that vanished before it had the finalizer, after the one before was deleted": {func(h *judgeFixture) {
			replace(h)
			vanish(h)
		}, ""},
		"a Deployment that vanished with the finalizer, after the one before was deleted": {func(h *judgeFixture) {
			replace(h)
			must(h.core.Update("deployments", source, "", "generator-0@core-0", func(o client.Object) error {
				o.SetFinalizers([]string{v1alpha1.FinalizerSource})
				return nil
			}))
			vanish(h)
		}, unasked},
		"a Deployment that vanished, confirmed on the protector": {func(h *judgeFixture) {
			vanish(h)
			confirm(h, "podprotectors", scenario.ProtectorOf(source))
		}, ""},
		"a Deployment that vanished, confirmed on the namespace": {func(h *judgeFixture) {
			confirm(h, apiserver.Namespaces, types.NamespacedName{Name: scenario.Namespace})
			vanish(h)
		}, ""},
		"a Deployment that exists, and a confirmation": {func(h *judgeFixture) { confirm(h, "podprotectors", scenario.ProtectorOf(source)) }, unasked},
		"a Deployment that was recreated a moment ago, and a confirmation": {func(h *judgeFixture) {
			vanish(h)
			confirm(h, "podprotectors", scenario.ProtectorOf(source))
			recreate(h)
		}, ""},
		"a Deployment that was recreated long ago, and a confirmation": {func(h *judgeFixture) {
			vanish(h)
			confirm(h, "podprotectors", scenario.ProtectorOf(source))
			recreate(h)
			time.Sleep(2 * maxInFlightRelease)
		}, unasked},
	} {
		cases[name] = judgeCase{1, 1, func(h *judgeFixture) {
			must(h.core.Create(apiserver.Namespaces, scenario.NamespaceObject(scenario.Namespace), scenario.User))
			recreate(h)
			must(h.core.Create("podprotectors", &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Namespace, Name: scenario.ProtectorOf(source).Name}}, ""))
			time.Sleep(2 * maxInFlightRelease)
			c.play(h)
			must(h.core.Delete("podprotectors", scenario.ProtectorOf(source), "", "generator-0@core-0"))
		}, c.want}
	}
	checkJudge(t, cases)
}

func newSource(key types.NamespacedName) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: scenario.ProtectLabel()}}
}
