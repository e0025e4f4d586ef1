package judge

import (
	"strings"
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
)

// A protector expects the pods of a workload only if a pod has it as its controller, or had a deleted one of its name (rule 16).
func TestTheJudgeKnowsTheWorkloadOfLeftoverPods(t *testing.T) {
	const ofNone types.UID = "of-a-deleted-workload"
	for name, c := range map[string]struct {
		kind, owner string
		uid         types.UID
		want        bool
	}{
		"a pod of the workload":                         {scenario.KindStatefulSet, "web", "", false},
		"a pod of a deleted workload of the same name":  {scenario.KindStatefulSet, "web", ofNone, false},
		"a pod of a deleted workload of another name":   {scenario.KindStatefulSet, "db", ofNone, true},
		"a pod of a deleted workload of the other kind": {scenario.KindDeployment, "web", ofNone, true},
		"a pod without a controller":                    {"", "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newJudgeFixture(1, 0)
				web := scenario.WorkloadPlan{Kind: scenario.KindStatefulSet, Name: "web", Replicas: 1}
				stored := must(h.cell.Create(web.Resource(), web.Object(), ""))
				if c.owner != "" && c.uid == "" {
					c.uid = stored.GetUID()
				}
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Namespace, Name: "a"}}
				if c.owner != "" {
					isController := true
					pod.OwnerReferences = []metav1.OwnerReference{
						{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: c.kind, Name: c.owner, UID: c.uid, Controller: &isController},
					}
				}
				must(h.cell.Create("pods", pod, ""))
				got := h.history.cells[testCell].isUncounted(workloadName{scenario.KindStatefulSet, client.ObjectKeyFromObject(stored)})
				if got != c.want {
					t.Errorf("isUncounted = %v, want %v", got, c.want)
				}
			})
		})
	}
}

// The expectation of a workload falls to 0 if it exists and its number does not count pods. Nothing said that before it existed again (rule 16).
func TestTheJudgeKnowsWhatExistsWithoutAScale(t *testing.T) {
	for name, c := range map[string]struct {
		kind  string
		after int
		fails bool
	}{
		"one without a scale, to 0":   {apiserver.KindPodGroup, 0, false},
		"one without a scale, to 1":   {apiserver.KindPodGroup, 1, true},
		"one that wants 3 pods, to 0": {scenario.KindStatefulSet, 0, true},
		"one that wants 3 pods, to 3": {scenario.KindStatefulSet, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newJudgeFixture(1, 0)
				plan := scenario.WorkloadPlan{Kind: c.kind, Name: "web", Replicas: 3}
				must(h.cell.Create(plan.Resource(), plan.Object(), ""))
				w := h.history.protectors[protectorKey{testCore, h.key}]
				h.aggregations.judgeExpectationDecrease(w, testCell, &h.history.cells[testCell].workloads, workloadName{c.kind, plan.Key()}, 4, c.after, time.Now())
				if failed := len(h.report.failures) > 0; failed != c.fails {
					t.Errorf("the judge reports %q, want a failure: %v", h.report.failures, c.fails)
				}
			})
		})
	}
}

// A leader expects the pods of a workload that it has read was deleted, until it has read that another one has its name. In a calm, it has read that
// (rule 16).
func TestTheJudgeKnowsWhichSuccessorsMayBeUnread(t *testing.T) {
	const uncounted = "whose number does not count them"
	for name, c := range map[string]struct {
		isDeleted, isDeletedBefore, isGone bool
		want                               string
	}{
		"a workload that was deleted during the leadership":                       {true, false, true, ""},
		"a workload that was deleted before the leadership began":                 {true, true, true, uncounted},
		"a workload that was never deleted":                                       {false, false, true, uncounted},
		"a workload that was deleted during the leadership, expected as existing": {true, false, false, uncounted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newJudgeFixture(0, 0)
				web := scenario.WorkloadPlan{Kind: apiserver.KindPodGroup, Name: "web", Replicas: 3}
				first := must(h.cell.Create(web.Resource(), web.Object(), ""))
				recreate := func() {
					must(h.cell.Delete(web.Resource(), web.Key(), "", scenario.User))
					must(h.cell.Create(web.Resource(), web.Object(), ""))
				}
				if c.isDeletedBefore {
					recreate()
				}
				time.Sleep(time.Second)
				h.beginLeadership(2)
				time.Sleep(time.Second)
				if c.isDeleted && !c.isDeletedBefore {
					recreate()
				}
				h.writeExpectation(2, v1alpha1.ExpectedWorkload{Kind: web.Kind, Name: web.Name, UID: first.GetUID(), Replicas: 3, Gone: c.isGone})
				if got := strings.Join(h.report.failures, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("the judge reports %q, want %q", got, c.want)
				}
				calm := &Convergence{Judge: h.Judge}
				if got := calm.expectationProblem(testCore, h.history.protectors[protectorKey{testCore, h.key}].stored); !strings.Contains(got, uncounted) {
					t.Errorf("expectationProblem() = %q, want %q", got, uncounted)
				}
			})
		})
	}
}

// beginLeadership begins a leadership of the cell.
func (h *judgeFixture) beginLeadership(epoch int64) {
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: testCell}}
	cell.Status.Aggregator.Epoch = epoch
	h.history.recordLeadership(testCore, cell)
}

// writeExpectation makes the floor a percentage, and writes which workloads the leader of an epoch expects.
func (h *judgeFixture) writeExpectation(epoch int64, workloads ...v1alpha1.ExpectedWorkload) {
	h.updateProtector("user", func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = scenario.ParseAmount("50%") })
	h.updateProtector("aggregator-0@core-0", func(p *v1alpha1.PodProtector) {
		a, sum := &p.Status.Cells[0].Aggregation, int32(0)
		for _, w := range workloads {
			sum += w.Replicas
		}
		a.SnapshotVersion, a.Epoch, a.Holder, a.CountedSpec = uintText(h.cell.Version()), epoch, "aggregator-0", quota.CountedSpec(&p.Spec)
		a.ExpectedReplicas, a.Workloads, a.LastEventTime = &sum, workloads, metav1.NowMicro()
	})
}
