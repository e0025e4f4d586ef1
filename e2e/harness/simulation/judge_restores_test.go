package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// restoreCell returns the cell to a version.
func (h *history) restoreCell(version uint64) {
	h.cell.Restore(version, version, func() { h.restored(testCell, version) })
}

// lead records a leader that began after the restores of the cell so far.
func (h *history) lead(epoch int64) {
	h.epochs[testCore+"/"+testCell] = map[int64]int{epoch: h.era(testCell)}
}

// restoreCore returns the core to a version, and waits a second before and after that. The webhook has seen all changes.
func (h *history) restoreCore(version uint64) { h.restoreCoreOf(version, h.core.Version()) }

// restoreCoreOf does the same, except that the webhook has seen all changes only up to the version heard.
func (h *history) restoreCoreOf(version, heard uint64) {
	time.Sleep(time.Second)
	next := h.core.Version() + bumped
	h.core.Restore(version, next, func() { h.coreWillBeOld(testCore, version, map[string]uint64{"webhook-0": heard}) })
	h.coreIsOld(&clusterState{name: testCore, store: h.core}, version, next)
	time.Sleep(time.Second)
}

// begin records that the webhook starts now.
func (h *history) begin() { h.beginOf["webhook-0"] = time.Now() }

// decideTwice admits a removal, restores the core to before it, and calls between. It then admits another removal by the restored counts.
// The first removal takes effect before the second.
func (h *history) decideTwice(between func()) {
	version := h.core.Version()
	first := h.reserve(h.ask("a"))
	h.restoreCore(version)
	between()
	second := h.reserve(h.ask("b"))
	h.effect(first)
	h.effect(second)
}

// countIn assigns the counts to a leadership that began at a version of the core.
func (h *history) countIn(term uint64) {
	h.change("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.TermVersion = uintText(term) })
}

// This test shows which effects of restores of a cell and of the core the judge excuses, and which it does not.
func TestTheJudgeExcusesNoMoreOfRestores(t *testing.T) {
	const overAdmission, dropped, unreserved = "over-admission", "dropped the reservation", "holds no reservation"
	checkJudge(t, map[string]judged{
		"a pod that a restore of the cell took after the decision": {3, 3, func(h *history) {
			version := h.cell.Version()
			h.pod(true)
			h.count(4)
			r := h.reserve(h.ask("a"))
			h.restoreCell(version)
			h.effect(r)
		}, ""},
		"a pod that a restore of the cell took before the decision": {3, 3, func(h *history) {
			version := h.cell.Version()
			h.pod(true)
			h.count(4)
			h.restoreCell(version)
			h.lead(2)
			h.countAs(3, version, 2)
			h.remove("a")
		}, overAdmission},
		"a count of before a restore of the cell": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.pod(true)
			later := h.cell.Version()
			h.restoreCell(version)
			h.countAt(4, later)
		}, ""},
		"a count of before a restore by a leader that began after it": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.pod(true)
			later := h.cell.Version()
			h.restoreCell(version)
			h.lead(2)
			h.countAs(4, later, 2)
		}, "says that 4 pods"},
		"a count without a pod that had gone before a restore": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.remove("a")
			h.restoreCell(version)
			h.countAt(2, version)
		}, ""},
		"a count without a pod that had gone before a restore by a leader that began after it": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.remove("a")
			h.restoreCell(version)
			h.lead(2)
			h.countAs(2, version, 2)
		}, "says that 2 pods"},
		"an answer for a pod that a restore brought back, by counts of before": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.remove("a")
			h.count(2)
			h.drop("aggregator-0@core-0")
			h.restoreCell(version)
			h.answer(h.ask("a"))
		}, ""},
		"an answer for a pod that a restore brought back, by later counts": {1, 3, func(h *history) {
			version := h.cell.Version()
			h.remove("a")
			h.count(2)
			h.drop("aggregator-0@core-0")
			h.restoreCell(version)
			h.touch("b") // a version that the removal had before
			h.lead(2)
			h.countAs(3, h.cell.Version(), 2)
			h.answer(h.ask("a"))
		}, unreserved},

		"an answer whose reservation was lost with the core": {1, 3, func(h *history) {
			version := h.core.Version()
			r := h.reserve(h.ask("a"))
			h.restoreCore(version)
			h.answer(r)
		}, ""},
		"an answer to a request that came after the restore": {1, 3, func(h *history) {
			version := h.core.Version()
			h.reserve(h.ask("a"))
			h.restoreCore(version)
			h.answer(h.ask("a"))
		}, unreserved},
		"an answer for a pod that was never reserved before the restore": {1, 3, func(h *history) {
			version := h.core.Version()
			h.reserve(h.ask("a"))
			r := h.ask("b")
			h.restoreCore(version)
			h.answer(r)
		}, unreserved},
		"a restored reservation that leaves while a removal of before may take effect": {1, 3, func(h *history) {
			h.admitted(testCell, h.reserve(h.ask("a")))
			h.restoreCore(h.core.Version())
			h.drop("aggregator-0@core-0")
		}, ""},
		"a restored reservation that leaves while a later removal may take effect as well": {1, 3, func(h *history) {
			h.admitted(testCell, h.reserve(h.ask("a")))
			h.restoreCore(h.core.Version())
			h.admitted(testCell, h.ask("a"))
			h.drop("aggregator-0@core-0")
		}, dropped},

		"an answer of a webhook that began when its protector was lost, before a restore": {1, 3, func(h *history) {
			h.loseBefore(func() { h.begin() })
		}, ""},
		"an answer of a webhook that began before its protector was lost":                {1, 3, func(h *history) { h.loseBefore(func() {}) }, unreserved},
		"an answer of a webhook that a restore kept from hearing of the protector":       {1, 3, func(h *history) { h.undo(1) }, ""},
		"an answer of a webhook that had heard of a protector before a restore undid it": {1, 3, func(h *history) { h.undo(0) }, unreserved},

		"the readiness race of a pod whose earlier reservation a restore brought back":   {2, 3, func(h *history) { h.raceAfterRestore(false) }, ""},
		"a removal of an available pod whose earlier reservation a restore brought back": {2, 3, func(h *history) { h.raceAfterRestore(true) }, overAdmission},

		"a decision by lost counts of a webhook that began after the restore":        {2, 3, func(h *history) { h.decideTwice(h.begin) }, ""},
		"a decision by lost counts of a webhook that began before the restore":       {2, 3, func(h *history) { h.decideTwice(func() {}) }, overAdmission},
		"a decision by counts of after the restore of a webhook that began later":    {2, 3, func(h *history) { h.decideTwice(func() { h.begin(); h.countIn(h.core.Version()) }) }, overAdmission},
		"a pod that went while its protector did not exist":                          {2, 3, func(h *history) { h.goWithoutProtector("a"); h.remove("b") }, ""},
		"a pod that is there since its protector exists again":                       {2, 3, func(h *history) { h.goWithoutProtector("a"); h.remove("b"); h.remove("c") }, "too few"},
		"a pod that went while its protector did not exist and excuses two removals": {1, 3, func(h *history) { h.goWithoutProtector("a"); h.remove("b"); h.remove("c") }, ""},
		"a pod that went while its protector did not exist, and that a count leaves out": {2, 3, func(h *history) {
			h.goWithoutProtector("a")
			h.count(2)
			h.remove("b")
		}, overAdmission},
		"a pod that went while another protector did not exist": {2, 3, func(h *history) {
			other := h.protectToo()
			version := h.core.Version()
			must(h.core.Delete("podprotectors", other, "", "user"))
			h.remove("a")
			h.restoreCore(version)
			h.remove("b")
		}, overAdmission},
	})
}

// raceAfterRestore reviews the removal of a pod that becomes available only after the review, or is available if isReady. The removal
// takes effect after a restore of the core, which brings back a reservation that was for another request. Another removal was decided in
// the lost time, when the pod counted and was not reserved.
func (h *history) raceAfterRestore(isReady bool) {
	h.reserve(h.ask("a"))
	version := h.core.Version()
	h.drop("aggregator-0@core-0")
	h.setReady("a", isReady)
	r := h.ask("a")
	h.setReady("a", true)
	h.count(3)
	other := h.reserve(h.ask("b"))
	h.restoreCore(version)
	h.effect(r)
	h.effect(other)
}

// hold gives the protector the finalizer, so that keepers remember it when it vanishes.
func (h *history) hold() {
	h.change("generator-0@core-0", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{v1alpha1.FinalizerHold} })
}

// loseBefore loses the protector, calls between, and restores the core to that state. Then a webhook answers, which started before the
// loss unless between starts it.
func (h *history) loseBefore(between func()) {
	h.hold()
	h.begin()
	time.Sleep(time.Second)
	h.core.Lose("podprotectors", h.key)
	time.Sleep(time.Second)
	between()
	h.restoreCore(h.core.Version())
	h.answerOf("webhook-0")
}

// undo restores the core to before the protector existed, and lets the webhook answer. The webhook's watch is behind by the given number
// of versions when the protector begins to cover the pods.
func (h *history) undo(behind uint64) {
	h.begin()
	time.Sleep(time.Second)
	h.change("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 1 })
	heard := h.core.Version() - behind
	h.hold()
	h.count(3)
	h.restoreCoreOf(0, heard)
	h.answerOf("webhook-0")
}

// answerOf is an answer of a webhook without a reservation.
func (h *history) answerOf(webhook string) {
	r := h.ask("a")
	r.webhook, r.witness = webhook, h.beginOf[webhook]
	h.answer(r)
}

// goWithoutProtector deletes the protector, removes a pod, and restores the core to when the protector existed.
func (h *history) goWithoutProtector(pod string) {
	version := h.core.Version()
	must(h.core.Delete("podprotectors", h.key, "", "user"))
	h.effect(h.ask(pod))
	h.restoreCore(version)
}

// A loss to one protector is none to another, and a removal that consumed no budget does not excuse one that did.
func TestTheJudgeExcusesNoMoreOfLosses(t *testing.T) {
	const overAdmission, dropped, unreserved = "over-admission", "dropped the reservation", "holds no reservation"
	noBudget := removals.VerdictReason(quota.RefusedNoBudget)
	checkJudge(t, map[string]judged{
		"a pod that died after the decision": {3, 3, func(h *history) {
			h.pod(true)
			h.count(4)
			r := h.reserve(h.ask("a"))
			h.setReady("b", false)
			h.effect(r)
		}, ""},
		"a pod that died before the decision, and that its count leaves out": {2, 3, func(h *history) {
			h.setReady("b", false)
			h.count(2)
			h.remove("a")
		}, overAdmission},
		"a loss to another protector": {2, 3, func(h *history) {
			r := h.reserve(h.ask("a"))
			h.setReady("b", false)
			h.cells[testCell].losses[0].only = newWatched(testCore)
			h.effect(r)
		}, overAdmission},
		"a removal that one protector did not reserve and the other did": {2, 3, func(h *history) { h.goUnheardOf(true) }, ""},
		"a removal that one protector did not reserve, for which the other had no budget": {2, 3, func(h *history) {
			h.setReady("c", false)
			h.count(2)
			h.goUnheardOf(true)
		}, overAdmission},
		"a removal that one protector had not heard of and the other did not reserve": {2, 3, func(h *history) { h.goUnheardOf(false) }, "never reserved it"},
		"a removal by an earlier spec that did not count the pod":                     {2, 3, func(h *history) { h.goYoungOfEarlierSpec(time.Second) }, ""},
		"a removal by an earlier spec that did not count the pod, long ago": {2, 3, func(h *history) {
			h.goYoungOfEarlierSpec(admissionDeadline)
		}, "excuses another removal"},

		"a refusal by a protector that ended shortly before": {1, 3, func(h *history) { h.refuseAfterEnd(usableWithin - time.Second) }, ""},
		"a refusal by a protector that ended long before":    {1, 3, func(h *history) { h.refuseAfterEnd(usableWithin) }, "has had budget for"},

		"an answer by force while the core is unreachable": {3, 3, func(h *history) { h.answerByForce(removals.VerdictUnreachable) }, ""},
		"an answer by force for lack of budget":            {3, 3, func(h *history) { h.answerByForce(noBudget) }, unreserved},
		"an answer of a webhook that has not heard of the floor": {0, 3, func(h *history) {
			time.Sleep(time.Minute)
			r := h.ask("a")
			h.setFloor(1)
			r.asked = r.asked.Add(time.Nanosecond)
			h.answer(r)
		}, ""},
		"an answer of a webhook that has heard of the floor": {0, 3, func(h *history) {
			time.Sleep(time.Minute)
			h.setFloor(1)
			h.answer(h.ask("a"))
		}, unreserved},
		"an answer under a floor of zero":                        {0, 3, func(h *history) { h.answer(h.ask("a")) }, ""},
		"a reservation that leaves of a pod under a floor of 0":  {1, 3, func(h *history) { h.setFloor(0); h.dropAdmitted() }, ""},
		"a reservation that leaves of a pod under another floor": {1, 3, func(h *history) { h.dropAdmitted() }, dropped},
		"a reservation that leaves of an update that may still be stored": {1, 3, func(h *history) {
			r := h.reserve(h.update("a", true))
			h.setReady("b", false)
			h.setReady("b", true)
			r.stored = false
			h.drop("aggregator-0@core-0")
		}, dropped},
		"a reservation that leaves of an update that is stored": {1, 3, func(h *history) {
			h.reserve(h.update("a", true))
			h.touch("a")
			h.drop("aggregator-0@core-0")
		}, dropped},
		"a reservation that leaves of a pod that is not ready": {1, 3, func(h *history) {
			pod := h.pod(false)
			h.count(3)
			h.admitted(testCell, h.reserve(h.ask(pod.Name)))
			h.drop("aggregator-0@core-0")
		}, ""},
		"a count that leaves a pod out in a transition": {1, 3, func(h *history) {
			h.change("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
			h.change("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.InTransition = true })
			h.count(0)
		}, ""},
		"a count that leaves a pod out without a change of the spec": {1, 3, func(h *history) {
			h.change("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.InTransition = true })
			h.count(2)
		}, "says that 2 pods"},
	})
}

// touch creates another version of a pod, which counts as before.
func (h *history) touch(pod string) {
	must(h.cell.Update("pods", h.podKey(pod), "", "", func(o client.Object) error {
		o.SetAnnotations(map[string]string{"example.com/touched": "true"})
		return nil
	}))
}

// dropAdmitted drops a reservation while its removal may take effect.
func (h *history) dropAdmitted() {
	time.Sleep(time.Minute)
	h.admitted(testCell, h.reserve(h.ask("a")))
	h.drop("aggregator-0@core-0")
}

// protectToo creates a second protector of the same pods, which the judge evaluates first.
func (h *history) protectToo() types.NamespacedName {
	p := ProtectorPlan{Name: "a0", Label: "app", Floor: 1}.object()
	p.Generation = 1
	must(h.core.Create("podprotectors", p, "user"))
	return client.ObjectKeyFromObject(p)
}

// refuseAfterEnd denies a removal for lack of budget of a second protector, which was deleted passed before.
func (h *history) refuseAfterEnd(passed time.Duration) {
	other := h.protectToo()
	time.Sleep(time.Minute)
	must(h.core.Delete("podprotectors", other, "", "user"))
	time.Sleep(passed)
	h.judgeAnswer(testCell, h.ask("a"), removals.Answer{
		Verdict: removals.VerdictReason(quota.RefusedNoBudget), Blames: &removals.Charge{Core: testCore, Key: other},
	})
}

// goUnheardOf removes a pod through a webhook that has not seen a second protector. If reserved is set, the webhook has reserved the
// removal with the first protector.
func (h *history) goUnheardOf(reserved bool) {
	r := h.ask("a")
	h.protectToo()
	if reserved {
		h.reserve(r)
	}
	h.effect(r)
}

// goYoungOfEarlierSpec removes a young pod through a webhook that uses a spec by which the pod did not count, passed after the spec was
// changed.
func (h *history) goYoungOfEarlierSpec(passed time.Duration) {
	h.change("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 100 })
	h.change("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
		p.Status.Cells[0].Aggregation.CountedSpec, p.Status.Cells[0].Aggregation.CountedReplicas = quota.CountedSpec(&p.Spec), 0
		p.Status.Cells[0].Aggregation.LastEventTime = metav1.NowMicro()
	})
	time.Sleep(50 * time.Second)
	r := h.ask("a")
	h.change("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
	time.Sleep(passed)
	h.effect(r)
	if len(h.cells[testCell].losses) > 0 {
		h.fail("the removal excuses another removal")
	}
}

// A keeper must recreate a protector that it has seen, unless no API server would accept it.
func TestTheJudgeKnowsWhatMayReturn(t *testing.T) {
	for name, c := range map[string]struct {
		unheard string        // the process that has not seen the protector
		deleted time.Duration // when its namespace is deleted after the loss; 0 is never
		want    bool
	}{
		"a protector that vanished":                                     {"", 0, true},
		"a protector that a webhook has not heard of":                   {"webhook-0", 0, true},
		"a protector that no keeper has heard of":                       {"generator-0", 0, false},
		"a protector whose namespace is deleted shortly after its loss": {"", keeperDelay - time.Second, false},
		"a protector whose namespace is deleted long after its loss":    {"", keeperDelay + time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHistory(1, 1)
				w := &world{cores: []*clusterState{{name: testCore, store: h.core}}, generators: []*process{{name: "generator-0"}}}
				space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{"kubernetes"}}}
				must(h.core.Create(apiserver.Namespaces, space, ""))
				lost := h.protectors[protectorKey{testCore, h.key}]
				lost.lost, lost.unheard = time.Now(), map[string]bool{c.unheard: true}
				if c.deleted > 0 {
					time.Sleep(c.deleted)
					must(h.core.Delete(apiserver.Namespaces, client.ObjectKeyFromObject(space), "", "user"))
				}
				if got := w.mayReturn(lost); got != c.want {
					t.Errorf("mayReturn() = %v, want %v", got, c.want)
				}
			})
		})
	}
}
