package judge

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	testCell = "worker-0"
	testCore = "core-0"

	otherCell = "worker-1"
)

// judgeFixture is the input of a judge in a test: pods of one cell and one protector, changed in the stores as clients and components do.
type judgeFixture struct {
	*Judge
	core, cell *apiserver.Store
	key        types.NamespacedName
	serial     int
}

func newJudgeFixture(floor, pods int) *judgeFixture {
	h := &judgeFixture{
		Judge: New(scenario.Scenario{}, nil), core: apiserver.NewStore(), cell: apiserver.NewStore(),
		key: types.NamespacedName{Namespace: scenario.Namespace, Name: "p0"},
	}
	h.history.cells[testCell] = newTruth()
	h.core.Committed = func(e *apiserver.Event) { h.RecordCoreEvent(testCore, e) }
	h.cell.Committed = func(e *apiserver.Event) { h.RecordCellEvent(testCell, e) }
	for range pods {
		h.createPod(true)
	}
	p := scenario.ProtectorPlan{Name: "p0", Label: "app", Floor: floor}.Object()
	p.Generation = 1
	must(h.core.Create("podprotectors", p, "user"))
	h.writeCount(pods)
	return h
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (h *judgeFixture) createPod(ready bool) types.NamespacedName {
	h.serial++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Namespace, Name: string(rune('a' + h.serial - 1)), Labels: map[string]string{"app": "x"}}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	scenario.SetReady(p, ready)
	must(h.cell.Create("pods", p, ""))
	return client.ObjectKeyFromObject(p)
}

func (h *judgeFixture) setReady(pod string, ready bool) {
	must(h.cell.Update("pods", h.podKey(pod), "", "", func(o client.Object) error {
		scenario.SetReady(o.(*corev1.Pod), ready) //nolint:forcetypeassert // the store keeps its kinds apart
		return nil
	}))
}

func (h *judgeFixture) podKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: scenario.Namespace, Name: name}
}

func (h *judgeFixture) updateProtector(by string, updateProtector func(p *v1alpha1.PodProtector)) {
	must(h.core.Update("podprotectors", h.key, "", by, func(o client.Object) error {
		updateProtector(o.(*v1alpha1.PodProtector)) //nolint:forcetypeassert // the store keeps its kinds apart
		return nil
	}))
}

// writeCount is a write of the aggregator, by the newest version of the cell.
func (h *judgeFixture) writeCount(n int) { h.writeCountAt(n, h.cell.Version()) }

func (h *judgeFixture) writeCountAt(n int, version uint64) { h.writeCountAs(n, version, 1) }

// writeCountAs is a write of a leader with an epoch.
func (h *judgeFixture) writeCountAs(n int, version uint64, epoch int64) {
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
		if len(p.Status.Cells) == 0 {
			p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: testCell}}
		}
		a := &p.Status.Cells[0].Aggregation
		a.CountedReplicas, a.SnapshotVersion, a.Epoch, a.Holder = int32(n), uintText(version), epoch, "aggregator-0"
		a.LastEventTime = metav1.NowMicro()
		a.CountedSpec = quota.CountedSpec(&p.Spec)
	})
}

func uintText(n uint64) string {
	text := ""
	for ; n > 0; n /= 10 {
		text = string(rune('0'+n%10)) + text
	}
	return text
}

func (h *judgeFixture) setFloor(floor int) {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(int32(floor)) })
}

// beginRemoval begins a removal that is reviewed by a webhook that has seen the whole core.
func (h *judgeFixture) beginRemoval(pod string) *Removal {
	o := must(h.cell.Get("pods", h.podKey(pod)))
	r := &Removal{
		ID: pod, Pod: h.podKey(pod), UID: o.GetUID(), Reviewed: o.(*corev1.Pod), //nolint:forcetypeassert // the store keeps its kinds apart
		RequestedAt: time.Now(), SeenVersions: map[string]uint64{testCore: h.core.Version()}, RestoresBefore: h.RestoresOf(testCell),
	}
	h.RecordReviewRequest(testCell, r)
	return r
}

// reserve is the write of a webhook.
func (h *judgeFixture) reserve(r *Removal) *Removal {
	h.updateProtector("webhook-0@core-0", func(p *v1alpha1.PodProtector) {
		buckets := &p.Status.Cells[0].AdmissionHistory.Buckets
		*buckets = append(*buckets, v1alpha1.Bucket{PodUID: r.UID, PodName: r.Pod.Name, Counter: 1, StartTime: metav1.NowMicro()})
	})
	return r
}

// dropReservations drops all reservations.
func (h *judgeFixture) dropReservations(by string) {
	h.updateProtector(by, func(p *v1alpha1.PodProtector) { p.Status.Cells[0].AdmissionHistory.Buckets = nil })
}

func (h *judgeFixture) applyRemoval(r *Removal) {
	h.RecordEffecting(testCell, r)
	must(h.cell.Delete("pods", r.Pod, "", RemovalActor(r)))
}

// restartReserved reserves the removal of pod a where pods must be ready for 10 seconds, and then makes another pod ready again.
func (h *judgeFixture) restartReserved(pod string) *Removal {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
	time.Sleep(time.Minute)
	h.writeCount(3)
	r := h.reserve(h.beginRemoval("a"))
	h.setReady(pod, true)
	return r
}

// restartAgain restarts pod b again by an update after the given time. That restart is not reserved. Then the removal of pod a takes
// effect.
func (h *judgeFixture) restartAgain(after time.Duration) {
	r := h.restartReserved("b")
	time.Sleep(after)
	h.restartContainer(h.update("b", true))
	time.Sleep(20 * time.Second)
	h.applyRemoval(r)
}

func (h *judgeFixture) setReadyStates(pod string, states ...bool) {
	for _, ready := range states {
		h.setReady(pod, ready)
	}
}

// losePod lets a pod die without excusing anything by it.
func (h *judgeFixture) losePod(pod string) {
	losses := slices.Clone(h.history.cells[testCell].losses)
	h.setReady(pod, false)
	h.history.cells[testCell].losses = losses
}

// removeYoung removes a new pod that has been ready for the given time, where the protector asks for 10 seconds. It returns a version of the
// cell in which the pod existed.
func (h *judgeFixture) removeYoung(after time.Duration) uint64 {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
	time.Sleep(time.Minute)
	h.writeCount(3)
	key := h.createPod(true)
	version := h.cell.Version()
	time.Sleep(after)
	h.applyRemoval(h.beginRemoval(key.Name))
	time.Sleep(time.Minute)
	return version
}

// update is an update of a pod, from its review until it is stored. isGuarded makes the protector guard updates.
func (h *judgeFixture) update(pod string, isGuarded bool) *Removal {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) {
		if p.Spec.Operations = v1alpha1.DefaultOperations(); isGuarded {
			p.Spec.Operations = append(p.Spec.Operations, v1alpha1.OperationUpdate)
		}
	})
	r := h.beginRemoval(pod)
	r.Update, r.stored = &scenario.PodUpdate{Container: scenario.Container}, true
	h.RecordAdmitted(testCell, r)
	return r
}

// restartContainer is the kubelet, which restarts the container of an updated pod.
func (h *judgeFixture) restartContainer(r *Removal) {
	h.RecordEffecting(testCell, r)
	must(h.cell.Update("pods", r.Pod, "", RemovalActor(r), func(o client.Object) error {
		scenario.SetReady(o.(*corev1.Pod), false) //nolint:forcetypeassert // the store keeps its kinds apart
		return nil
	}))
	h.RecordFinished(r)
}

// addDiscountedCell adds a cell with pods, and discounts it.
func (h *judgeFixture) addDiscountedCell(pods int) {
	h.history.cells[otherCell] = newTruth()
	other := apiserver.NewStore()
	other.Committed = func(e *apiserver.Event) { h.RecordCellEvent(otherCell, e) }
	own := h.cell
	h.cell = other
	for range pods {
		h.createPod(true)
	}
	h.cell = own
	h.updateProtector("aggregator-1@core-0", func(p *v1alpha1.PodProtector) {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: otherCell, Aggregation: v1alpha1.Aggregation{
			CountedReplicas: int32(pods), SnapshotVersion: uintText(other.Version()), Epoch: 1, Holder: "aggregator-1", LastEventTime: metav1.NowMicro(),
			CountedSpec: quota.CountedSpec(&p.Spec),
		}})
	})
	h.discount(v1alpha1.DiscountStale)
}

func (h *judgeFixture) discount(discount v1alpha1.Discount) {
	h.updateProtector("topology-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells[1].Discount = discount })
}

// force starts a removal by force, which overrides a denial.
func (h *judgeFixture) force(pod string, over removals.VerdictReason) *Removal {
	must(h.cell.Update("pods", h.podKey(pod), "", "", func(o client.Object) error {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationForceDelete: "true"})
		return nil
	}))
	r := h.beginRemoval(pod)
	r.OverriddenDenial = over
	return r
}

// dropUnderForce drops the reservation of an earlier removal, made age before, while a removal by force may take effect.
func (h *judgeFixture) dropUnderForce(age time.Duration, over removals.VerdictReason, by string) {
	h.reserve(h.beginRemoval("a"))
	time.Sleep(age)
	h.RecordAdmitted(testCell, h.force("a", over))
	h.dropReservations(by)
}

// giveBackAfterForce removes a pod by force, and then gives back the reservation of an earlier removal of it.
func (h *judgeFixture) giveBackAfterForce(over removals.VerdictReason) {
	h.reserve(h.beginRemoval("a"))
	h.applyRemoval(h.force("a", over))
	h.dropReservations("webhook-0@core-0")
}

// allow is a webhook's answer that allows a removal.
func (h *judgeFixture) allow(r *Removal) { h.allowWith(r, removals.Answer{}) }

func (h *judgeFixture) allowWith(r *Removal, answer removals.Answer) {
	h.JudgeAllowed(&Replica{Name: "webhook-0"}, testCell, r, answer)
}

// allowForced is an answer that overrides a denial.
func (h *judgeFixture) allowForced(over removals.VerdictReason) {
	r := h.force("a", over)
	h.allowWith(r, removals.Answer{Verdict: removals.VerdictForced, Overridden: &removals.Override{Verdict: over}})
}

// recreateProtector loses the protector, and creates it again as its keeper does, without its status.
func (h *judgeFixture) recreateProtector() {
	h.updateProtector("generator-0@core-0", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{v1alpha1.FinalizerHold} })
	last := h.history.protectors[protectorKey{testCore, h.key}].stored
	h.core.Lose("podprotectors", h.key)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: last.Namespace, Name: last.Name, Finalizers: last.Finalizers}, Spec: last.Spec}
	p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "true"}
	must(h.core.Create("podprotectors", p, "generator-0@core-0"))
}

// completeStatus completes a recreation without the reservations.
func (h *judgeFixture) completeStatus() {
	h.updateProtector("generator-0@core-0", func(p *v1alpha1.PodProtector) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue}}
	})
}

// remove is a removal from its review to its effect.
func (h *judgeFixture) remove(pod string) { h.applyRemoval(h.reserve(h.beginRemoval(pod))) }

// accountReservations excludes the reservations from the budget.
func (h *judgeFixture) accountReservations() {
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
		for i := range p.Status.Cells[0].AdmissionHistory.Buckets {
			p.Status.Cells[0].AdmissionHistory.Buckets[i].Accounted = true
		}
	})
}

func (h *judgeFixture) deleteCellEntry() {
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) { p.Status.Cells = nil })
}

// addCellEntryAfter adds an entry of a cell when the given time has passed since its Cell was deleted.
func (h *judgeFixture) addCellEntryAfter(passed time.Duration) {
	h.history.cells[otherCell] = newTruth()
	truth := h.topology.cellOf(testCore, otherCell)
	truth.wasDeleted, truth.endedAt = true, time.Now()
	time.Sleep(passed)
	h.updateProtector("aggregator-1@core-0", func(p *v1alpha1.PodProtector) {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: otherCell})
	})
}

// The judge excuses nothing beyond the documented limits: each case outside of a limit differs from one inside it in one thing.
func TestTheJudgeExcusesNoMoreThanIsDocumented(t *testing.T) {
	overAdmission, unreserved, dropped := "over-admission", "never reserved it", "dropped the reservation"
	const webhook, aggregator = "webhook-0@core-0", "aggregator-0@core-0"
	noBudget := removals.VerdictReason(quota.DeniedNoBudget)
	checkJudge(t, map[string]judgeCase{
		"a removal that keeps the floor":             {2, 3, func(h *judgeFixture) { h.remove("a") }, ""},
		"a removal that does not":                    {3, 3, func(h *judgeFixture) { h.remove("a") }, "leaves 1 pods too few"},
		"a removal that was not reserved":            {1, 3, func(h *judgeFixture) { h.applyRemoval(h.beginRemoval("a")) }, unreserved},
		"a floor that is raised after the decision":  {2, 3, func(h *judgeFixture) { r := h.reserve(h.beginRemoval("a")); h.setFloor(3); h.applyRemoval(r) }, ""},
		"a floor that was lower before the decision": {1, 3, func(h *judgeFixture) { h.setFloor(3); h.remove("a") }, "leaves 1 pods too few"},
		"a pod that died before the effect":          {2, 3, func(h *judgeFixture) { r := h.reserve(h.beginRemoval("a")); h.setReady("b", false); h.applyRemoval(r) }, ""},
		"a floor that is lowered after the decision and admits no removal": {2, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setFloor(1)
			h.setReady("b", false)
			h.history.cells[testCell].losses = nil // as if the loss was not excused
			h.applyRemoval(r)
		}, overAdmission},
		"a floor that is lowered after the decision and admits another removal": {2, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setFloor(1)
			h.remove("b")
			h.applyRemoval(r)
		}, ""},
		"a pod that died before it was counted": {2, 3, func(h *judgeFixture) {
			h.setReady("b", false)

			h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
				p.Status.Cells[0].Aggregation.SnapshotVersion = uintText(h.cell.Version())
			})
			h.remove("a")
		}, "says that 3 pods were available"},
		"the readiness race": {2, 2, func(h *judgeFixture) {
			h.createPod(false)
			h.writeCount(2)
			r := h.beginRemoval("c")
			h.setReady("c", true)
			h.applyRemoval(r)
		}, ""},
		"a pod that was available at its review": {2, 2, func(h *judgeFixture) {
			h.createPod(false)
			h.writeCount(2)
			h.setReady("c", true)
			h.applyRemoval(h.beginRemoval("c"))
		}, unreserved},
		"a floor of zero at the review": {0, 3, func(h *judgeFixture) { h.applyRemoval(h.beginRemoval("a")) }, ""},
		"a floor of zero long before the review": {0, 3, func(h *judgeFixture) {
			time.Sleep(time.Minute)
			h.setFloor(1)
			time.Sleep(time.Minute)
			h.applyRemoval(h.beginRemoval("a"))
		}, unreserved},
		"a floor of zero long after the review": {1, 3, func(h *judgeFixture) {
			r := h.beginRemoval("a")
			time.Sleep(scenario.WebhookTimeout + time.Second)
			h.setFloor(0)
			h.applyRemoval(r)
		}, unreserved},
		"a webhook that has not seen the floor": {0, 3, func(h *judgeFixture) {
			time.Sleep(time.Minute)
			r := h.beginRemoval("a")
			h.setFloor(1)
			r.RequestedAt = r.RequestedAt.Add(time.Nanosecond)
			h.applyRemoval(r)
		}, ""},
		"a webhook that has seen the floor": {0, 3, func(h *judgeFixture) {
			time.Sleep(time.Minute)
			h.setFloor(1)
			r := h.beginRemoval("a")
			h.applyRemoval(r)
		}, unreserved},
		"a count that leaves out an existing pod": {1, 3, func(h *judgeFixture) {
			h.createPod(true)
			h.writeCount(3)
		}, "says that 3 pods were available"},
		"a count that leaves out a pod deleted since its snapshot": {1, 3, func(h *judgeFixture) {
			version := h.cell.Version()
			h.remove("a")
			h.writeCountAt(2, version)
		}, ""},
		"a count that has a pod too many": {1, 3, func(h *judgeFixture) { h.writeCountAt(4, h.cell.Version()) }, "says that 4 pods"},
		"a reservation that is dropped when its pod was deleted": {1, 3, func(h *judgeFixture) {
			h.remove("a")
			h.writeCount(2)
			h.dropReservations("aggregator-0@core-0")
		}, ""},
		"a reservation that a webhook drops while its removal may take effect": {1, 3, func(h *judgeFixture) {
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
			h.dropReservations("webhook-0@core-0")
		}, dropped},
		"a reservation that a webhook drops before the count is without its pod": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.RecordAdmitted(testCell, r)
			h.applyRemoval(r)
			h.RecordFinished(r)
			h.dropReservations("webhook-0@core-0")
		}, "which is removed and still counted"},
		"a reservation that an aggregator drops by a list": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.RecordAdmitted(testCell, r)
			h.applyRemoval(r)
			h.dropReservations("aggregator-0@core-0")
		}, ""},
		"a reservation of a pod that never was": {1, 3, func(h *judgeFixture) {
			h.reserve(&Removal{UID: "no-such-pod", Pod: h.podKey("z")})
		}, "that no client has asked for"},
		"a pod that became ready again, and is too young": {2, 3, func(h *judgeFixture) { h.applyRemoval(h.restartReserved("b")) }, ""},
		"a pod that became ready again, and is old enough": {2, 3, func(h *judgeFixture) {
			r := h.restartReserved("b")
			time.Sleep(20 * time.Second)
			h.applyRemoval(r)
		}, ""},
		"a pod that became ready again, and excuses another": {2, 3, func(h *judgeFixture) {
			r := h.restartReserved("b")
			time.Sleep(20 * time.Second)
			h.losePod("c")
			h.applyRemoval(r)
		}, overAdmission},
		"a pod that became ready again, and was removed before minReadySeconds": {2, 3, func(h *judgeFixture) {
			r := h.restartReserved("b")
			h.applyRemoval(h.beginRemoval("b"))
			time.Sleep(20 * time.Second)
			h.applyRemoval(r)
		}, ""},
		"a pod that became ready again, and was restarted while it was too young": {2, 3, func(h *judgeFixture) { h.restartAgain(5 * time.Second) }, ""},
		"a pod that became ready again, and was restarted when it was old enough": {2, 3, func(h *judgeFixture) { h.restartAgain(20 * time.Second) }, overAdmission},
		"a pod that died twice": {3, 4, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setReadyStates("b", false, true, false)
			h.applyRemoval(r)
		}, ""},
		"a pod that died twice, and excuses another": {3, 4, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setReadyStates("b", false, true, false)
			h.losePod("c")
			h.applyRemoval(r)
		}, overAdmission},
		"a pod that died and came back": {3, 4, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setReadyStates("b", false, true)
			h.setReady("c", false)
			h.applyRemoval(r)
		}, ""},
		"a pod that died and came back, and excuses another": {3, 4, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.setReadyStates("b", false, true)
			h.losePod("c")
			h.applyRemoval(r)
		}, overAdmission},
		"a count of a pod that was removed before minReadySeconds":      {1, 3, func(h *judgeFixture) { h.writeCountAt(4, h.removeYoung(5*time.Second)) }, "says that 4 pods"},
		"a count without a pod that was removed before minReadySeconds": {1, 3, func(h *judgeFixture) { h.writeCountAt(3, h.removeYoung(5*time.Second)) }, ""},
		"a count without pods that may not have been seen since they became available": {1, 3, func(h *judgeFixture) {
			h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 })
			time.Sleep(time.Minute)
			h.writeCount(0)
		}, ""},
		"a restart by an update that keeps the floor": {2, 3, func(h *judgeFixture) { h.restartContainer(h.reserve(h.update("a", true))) }, ""},
		"a restart by an update that does not":        {3, 3, func(h *judgeFixture) { h.restartContainer(h.reserve(h.update("a", true))) }, "leaves 1 pods too few"},
		"a restart that was not reserved":             {1, 3, func(h *judgeFixture) { h.restartContainer(h.update("a", true)) }, unreserved},
		"a restart that the protector does not guard": {3, 3, func(h *judgeFixture) { h.restartContainer(h.update("a", false)) }, ""},
		"an update that is given up after its time": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.update("a", true))
			time.Sleep(scenario.UpdateTimeout)
			h.dropReservations("aggregator-0@core-0")
			h.restartContainer(r)
		}, ""},
		"an update that is given up before": {1, 3, func(h *judgeFixture) {
			h.reserve(h.update("a", true))
			time.Sleep(scenario.UpdateTimeout - time.Second)
			h.dropReservations("aggregator-0@core-0")
		}, dropped},
		"an update that can be stored no more": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.update("a", true))
			r.stored = false
			h.setReady("a", false)
			h.setReady("a", true)
			h.dropReservations("aggregator-0@core-0")
		}, ""},
		"a removal that is given up after the time of an update": {1, 3, func(h *judgeFixture) {
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
			time.Sleep(scenario.UpdateTimeout)
			h.dropReservations("aggregator-0@core-0")
		}, dropped},
		"a reservation that does not count while its pod is restarted": {2, 3, func(h *judgeFixture) {
			h.restartContainer(h.reserve(h.update("a", true)))
			h.writeCount(2)
			h.accountReservations()
		}, ""},
		"a reservation that does not count while its pod is available": {2, 3, func(h *judgeFixture) {
			h.reserve(h.update("a", true))
			h.writeCount(3)
			h.accountReservations()
		}, "is available in the snapshot"},
		"a removal beside a cell that is discounted":                 {2, 3, func(h *judgeFixture) { h.addDiscountedCell(3); h.remove("a") }, ""},
		"a removal that needs the pods of a cell that is discounted": {3, 3, func(h *judgeFixture) { h.addDiscountedCell(3); h.remove("a") }, "leaves 1 pods too few"},
		"a removal beside a cell that is discounted no more": {3, 3, func(h *judgeFixture) {
			h.addDiscountedCell(3)
			h.discount("")
			h.remove("a")
		}, ""},
		"an effect beside a cell that is discounted": {2, 3, func(h *judgeFixture) {
			h.addDiscountedCell(3)
			r := h.reserve(h.beginRemoval("a"))
			h.setReady("b", false)
			h.history.cells[testCell].losses = nil
			h.applyRemoval(r)
		}, overAdmission},
		"an effect beside a cell that is discounted no more": {2, 3, func(h *judgeFixture) {
			h.addDiscountedCell(3)
			r := h.reserve(h.beginRemoval("a"))
			h.discount("")
			h.setReady("b", false)
			h.history.cells[testCell].losses = nil
			h.applyRemoval(r)
		}, ""},
		"an entry that leaves a status": {1, 3, func(h *judgeFixture) { h.deleteCellEntry() }, "is removed from the status"},
		"an entry that leaves the status after its Cell was deleted": {1, 3, func(h *judgeFixture) {
			h.topology.cellOf(testCore, testCell).wasDeleted = true
			h.deleteCellEntry()
		}, ""},
		"an entry that leaves the status while a removal may take effect": {1, 3, func(h *judgeFixture) {
			h.topology.cellOf(testCore, testCell).wasDeleted = true
			h.RecordAdmitted(testCell, h.reserve(h.beginRemoval("a")))
			h.deleteCellEntry()
		}, dropped},
		"an entry that is made for a Cell that was deleted shortly before": {1, 3, func(h *judgeFixture) { h.addCellEntryAfter(time.Second) }, ""},
		"an entry that is made for a Cell that was deleted long before":    {1, 3, func(h *judgeFixture) { h.addCellEntryAfter(time.Minute) }, "its Cell was deleted"},
		"a removal by force": {3, 3, func(h *judgeFixture) { h.applyRemoval(h.reserve(h.force("a", noBudget))) }, ""},
		"a removal that was decided before one by force": {2, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.applyRemoval(h.reserve(h.force("b", noBudget)))
			h.applyRemoval(r)
		}, ""},
		"a removal that was decided after one by force": {2, 3, func(h *judgeFixture) {
			h.applyRemoval(h.reserve(h.force("a", noBudget)))
			h.remove("b")
		}, "over-admission"},
		"a removal by force that was not reserved": {3, 3, func(h *judgeFixture) { h.applyRemoval(h.force("a", noBudget)) }, unreserved},
		"a removal by force while the core was unreachable": {3, 3, func(h *judgeFixture) {
			h.applyRemoval(h.force("a", removals.VerdictUnreachable))
		}, ""},
		"an expired reservation of a pod that is removed by force, not renewed while the core was unreachable": {1, 3, func(h *judgeFixture) {
			h.dropUnderForce(scenario.AdmissionDeadline, removals.VerdictUnreachable, aggregator)
		}, ""},
		"an expired reservation of a pod that is removed by force for lack of budget": {1, 3, func(h *judgeFixture) {
			h.dropUnderForce(scenario.AdmissionDeadline, noBudget, aggregator)
		}, dropped},
		"a reservation that has not expired of a pod that is removed by force while the core was unreachable": {1, 3, func(h *judgeFixture) {
			h.dropUnderForce(scenario.AdmissionDeadline-time.Second, removals.VerdictUnreachable, aggregator)
		}, dropped},
		"a reservation that a webhook gives back for a pod that is removed by force while the core was unreachable": {1, 3, func(h *judgeFixture) {
			h.dropUnderForce(time.Second, removals.VerdictUnreachable, webhook)
		}, ""},
		"a reservation that a webhook gives back for a pod that is removed by force for lack of budget": {1, 3, func(h *judgeFixture) {
			h.dropUnderForce(time.Second, noBudget, webhook)
		}, dropped},
		"a reservation given back for a pod that was removed by force while the core was unreachable": {2, 3, func(h *judgeFixture) {
			h.giveBackAfterForce(removals.VerdictUnreachable)
			h.remove("b") // decided before the removal by force is reserved
		}, ""},
		"a reservation given back for a pod that was removed by force for lack of budget": {1, 3, func(h *judgeFixture) {
			h.giveBackAfterForce(noBudget)
		}, dropped},
		"a pod that counts and is not protected": {3, 3, func(h *judgeFixture) {
			h.updateProtector("user", func(p *v1alpha1.PodProtector) {
				p.Spec.AggregationSelector, p.Spec.Selector = &v1alpha1.PodSelector{}, &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "y"}}
			})
			h.writeCount(3)
			h.applyRemoval(h.beginRemoval("a"))
		}, ""},
		"an answer whose reservation is recorded":  {1, 3, func(h *judgeFixture) { h.allow(h.reserve(h.beginRemoval("a"))) }, ""},
		"an answer whose removal was not reserved": {1, 3, func(h *judgeFixture) { h.allow(h.beginRemoval("a")) }, "holds no reservation"},
		"an answer while a recreated protector does not have its status": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.recreateProtector()
			h.allow(r)
		}, ""},
		"an answer without a reservation while a recreated protector does not have its status": {1, 3, func(h *judgeFixture) {
			r := h.beginRemoval("a")
			h.recreateProtector()
			h.allow(r)
		}, "holds no reservation"},
		"an answer when a recreated protector has its status": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.recreateProtector()
			h.completeStatus()
			h.allow(r)
		}, "holds no reservation"},
		"an effect after its reservation was dropped": {1, 3, func(h *judgeFixture) {
			r := h.reserve(h.beginRemoval("a"))
			h.dropReservations("aggregator-0@core-0")
			h.applyRemoval(r)
		}, unreserved},
	})
}

// judgeCase is a history of a protector and the expected report of the judge.
type judgeCase struct {
	floor, pods int
	play        func(h *judgeFixture)
	want        string // part of the failures; "" is none
}

func checkJudge(t *testing.T, cases map[string]judgeCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newJudgeFixture(c.floor, c.pods)
				c.play(h)
				switch got := strings.Join(h.report.failures, "\n"); {
				case c.want == "" && got != "", c.want != "" && !strings.Contains(got, c.want):
					t.Errorf("the judge reports %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A restore of one core does not change the owners in another.
func TestTheJudgeKnowsTheOwnersOfEachCore(t *testing.T) {
	owner := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "owner-0", UID: "1"}}
	source := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: scenario.Namespace, Name: "app-0", OwnerReferences: []metav1.OwnerReference{{UID: owner.UID}},
	}}
	r := &report{}
	d := newDecreases(scenario.Scenario{}, r, newStalls(), sourceHistories{})
	d.recordCoreEvent(testCore, &apiserver.Event{Type: watch.Added, New: owner})
	d.evidence.recordRestoredObjects(&Cluster{Name: "core-1", Store: apiserver.NewStore()})
	if d.evidence.isCascade(testCore, source) {
		t.Error("isCascade() = true after a restore of another core, want false")
	}
	d.evidence.recordRestoredObjects(&Cluster{Name: testCore, Store: apiserver.NewStore()})
	if !d.evidence.isCascade(testCore, source) {
		t.Error("isCascade() = false after a restore that undid the owner, want true")
	}
	if len(r.failures) > 0 {
		t.Errorf("the judge reports %q, want nothing", r.failures)
	}
}
