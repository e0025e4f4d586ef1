package simulation

import (
	"cmp"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// executeStep executes a step.
func (sim *simulator) executeStep(n int, s Step) {
	sim.trace.add("step %d: %s", n, s.What)
	switch s.What {
	case Delete, Evict, DryRun, AskRelabel, UpdateImage, ResizePod:
		sim.removeOne(fmt.Sprint(n), s)
	case StepWebhookClock, StepAggregatorClock:
		sim.stepClock(s)
	case Renew:
		sim.renewForever(n, s)
	case Force:
		sim.forceRemoval(fmt.Sprint(n), s)
	case DeleteCollection:
		sim.removeAll(n, s)
	case CreatePod:
		sim.createPod(sim.cell(s), s.Who%3 > 0)
	case CreateUnbound:
		sim.createUnbound(sim.cell(s))
	case BecomeReady, BecomeUnready, BecomeUnknown, BecomePending, BecomeRunning, BecomeScheduled, SetCriterion, Die, Relabel:
		sim.changePod(s)
	case SetFloor, SetSelector:
		sim.changeProtector(s)
	case Widen:
		sim.changeCoverage(s)
	case Rollout:
		sim.rollOut(n, s)
	case ScaleSource:
		sim.scaleSource(s)
	case DeleteSource, CreateSource, LoseSource, LoseProtector:
		sim.changeSource(s)
	case DeleteSources, ScaleSources, CreateSources, DeleteNamespace, DeleteOwner, OptOut, OptIn, ConfirmSource, ConfirmProtector, ConfirmNamespace,
		TakeBack, DeleteGenerated, LoseGrants:
		sim.applySourceStep(s)
	case FreezeAggregator:
		sim.judge.recordFault(s)
		sim.freezeAggregator(s)
	case SecondGenerator:
		sim.runSecondGenerator(n, s)
	case SyncWorkloads, ScaleWorkload, DeleteWorkload, CreateWorkload, ConfirmWorkloads, RestartPods:
		sim.changeWorkloads(n, s)
	case DeleteCell, CreateCell:
		sim.changeCell(n, s)
	case LoseOne, DeleteProtector, CreateProtector:
		sim.applyProtectorStep(s)
	default:
		sim.injectFault(s)
	}
}

func (sim *simulator) cell(s Step) *clusterState { return sim.workers[s.Cell%len(sim.workers)] }

// pick selects an element by the index who, modulo the length. ok is false if there are no elements.
func pick[T any](all []T, who int) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[who%len(all)], true
}

func (sim *simulator) newRemoval(id string, pod *corev1.Pod, s Step) *removal {
	return &removal{
		id: id, pod: client.ObjectKeyFromObject(pod), evict: s.What == Evict, dryRun: s.What == DryRun, grace: s.For, hangs: s.Stuck, refusedByOther: s.RefusedLater,
		relabel: relabelOf(s), update: changeOf(s),
	}
}

func (sim *simulator) removeOne(id string, s Step) {
	c := sim.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	sim.runAfter(0, func() { sim.executeRemoval(c, sim.newRemoval(id, pod, s)) })
}

func (sim *simulator) executeRemoval(c *clusterState, r *removal) string {
	result := c.executeRemoval(r)
	sim.judge.countAnswer(r, result)
	sim.trace.add("%s: removal %s of %s ends: %s", c.name, r.id, r.pod.Name, result)
	return result
}

// removeAll is a deletecollection: it removes one pod after the other, and the first refusal ends it.
func (sim *simulator) removeAll(n int, s Step) {
	c := sim.cell(s)
	s.Stuck = 0
	sim.runAfter(0, func() {
		for i, pod := range c.pods() {
			if result := sim.executeRemoval(c, sim.newRemoval(fmt.Sprintf("%d.%d", n, i), pod, s)); result != "removed" && result != "404" {
				return
			}
		}
	})
}

// rollOut replaces some pods, one after the other. It creates a new pod, makes it ready, and retries the deletion of an old pod up to five
// times.
func (sim *simulator) rollOut(n int, s Step) {
	c := sim.cell(s)
	sim.runAfter(0, func() {
		old := c.pods()
		for i, pod := range old[:min(len(old), 1+s.N%4)] {
			fresh := sim.createPod(c, false)
			time.Sleep(sim.dice.Between(100*time.Millisecond, 2*time.Second, fmt.Sprintf("rollout %d.%d", n, i)))
			_, _ = c.store.Update("pods", fresh, "", "", func(o client.Object) error {
				if pod, ok := o.(*corev1.Pod); ok {
					setReady(pod, true)
				}
				return nil
			})
			for try := range 5 {
				result := sim.executeRemoval(c, sim.newRemoval(fmt.Sprintf("%d.%d.%d", n, i, try), pod, Step{What: Delete, For: time.Second}))
				if result == "removed" || result == "404" {
					break
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// changePod changes a pod without a review.
func (sim *simulator) changePod(s Step) {
	c := sim.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	_, _ = c.store.Update("pods", client.ObjectKeyFromObject(pod), "", "", func(o client.Object) error {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil
		}
		switch s.What {
		case BecomeReady, BecomeUnready:
			setReady(pod, s.What == BecomeReady)
		case BecomeUnknown:
			setReady(pod, false)
			pod.Status.Conditions[0].Status = corev1.ConditionUnknown
		case BecomePending:
			pod.Status.Phase = corev1.PodPending
		case BecomeRunning:
			pod.Status.Phase = corev1.PodRunning
		case BecomeScheduled:
			pod.Spec.NodeName = "node-1"
		case SetCriterion:
			setCriterion(pod, s.N)
		case Die:
			pod.Status.Phase = corev1.PodFailed
			setReady(pod, false)
		case Relabel:
			pod.Labels = map[string]string{"app": []string{"x", "y"}[s.N%2], "tier": "x"}
		}
		return nil
	})
}

func (sim *simulator) changeProtector(s Step) {
	core := sim.cores[s.Core%len(sim.cores)]
	p, ok := pick(core.protectors(), s.Who)
	if !ok || p.Labels != nil { // the generator owns a generated protector
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", "user", func(o client.Object) error {
		p, ok := o.(*v1alpha1.PodProtector)
		if !ok {
			return nil
		}
		if s.What == SetFloor {
			setFloor(&p.Spec, s.N)
		} else {
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{[]string{"app", "tier"}[s.N%2]: "x"}}
		}
		p.Generation++
		return nil
	})
}

func (sim *simulator) scaleSource(s Step) {
	core := sim.cores[0]
	_, _ = core.store.Update("deployments", types.NamespacedName{Namespace: namespace, Name: sourceName}, "", "user", func(o client.Object) error {
		if d, ok := o.(*appsv1.Deployment); ok {
			replicas := int32(s.N)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
		return nil
	})
}

// calmProblem returns "" if the status of every protector is true and nothing is reserved. Otherwise it returns the first deviation.
func (sim *simulator) calmProblem() string {
	if problem := sim.unservedSource(); problem != "" {
		return problem
	}
	for _, core := range sim.cores {
		if problem := sim.shardingProblem(core); problem != "" {
			return problem
		}
		for _, p := range core.protectors() {
			if problem := sim.unseenCoverage(core.name, p); problem != "" {
				return problem
			}
			if problem := cmp.Or(discountReason(p), sim.expectationProblem(core.name, p)); problem != "" {
				return problem
			}
			watched := sim.judge.history.protectors[protectorKey{core.name, client.ObjectKeyFromObject(p)}]
			for _, worker := range sim.workers {
				cell := quota.CellOf(p, worker.name)
				if cell == nil {
					return fmt.Sprintf("protector %s has no counts of %s", p.Name, worker.name)
				}
				if term := parseVersion(cell.Aggregation.TermVersion); term < core.restoredVersion {
					return fmt.Sprintf("protector %s has counts of %s of a leadership that began at %d, before the core was restored", p.Name, worker.name, term)
				}
				if cell.Aggregation.InTransition { // a new leader of the cell would begin the transition again
					return fmt.Sprintf("protector %s counts the pods of %s by an earlier spec as well", p.Name, worker.name)
				}
				want := sim.judge.history.cells[worker.name].available(watched, time.Now())
				if got := int(cell.Aggregation.CountedReplicas); got != want || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s counts %d pods of %s, want %d", p.Name, got, worker.name, want)
				}
				if open := sim.countUnrenewed(&cell.AdmissionHistory); open > 0 {
					return fmt.Sprintf("protector %s has %d open reservations of %s: %s", p.Name, open, worker.name, describeStatus(p))
				}
			}
		}
	}
	return ""
}

// unseenCoverage returns "" if all webhooks know what a protector covers: events that were delayed in the storm still take their time.
func (sim *simulator) unseenCoverage(core string, p *v1alpha1.PodProtector) string {
	watched := sim.judge.history.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for _, webhook := range sim.webhooks() {
		if knows, needs := webhook.seenVersions()[core], max(watched.coveredSince, watched.floorRaisedAt); knows < needs {
			return fmt.Sprintf("%s has seen protector %s of core %s up to version %d, want %d", webhook.name, p.Name, core, knows, needs)
		}
	}
	return ""
}
