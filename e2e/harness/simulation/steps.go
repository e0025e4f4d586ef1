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

// take executes a step.
func (w *world) take(n int, s Step) {
	w.trace.add("step %d: %s", n, s.What)
	switch s.What {
	case Delete, Evict, DryRun, AskRelabel, UpdateImage, ResizePod:
		w.removeOne(fmt.Sprint(n), s)
	case StepWebhookClock, StepAggregatorClock:
		w.stepClock(s)
	case Renew:
		w.renewForever(n, s)
	case Force:
		w.force(fmt.Sprint(n), s)
	case DeleteCollection:
		w.removeAll(n, s)
	case CreatePod:
		w.createPod(w.cell(s), s.Who%3 > 0)
	case CreateUnbound:
		w.createUnbound(w.cell(s))
	case BecomeReady, BecomeUnready, BecomeUnknown, BecomePending, BecomeRunning, BecomeScheduled, SetCriterion, Die, Relabel:
		w.changePod(s)
	case SetFloor, SetSelector:
		w.changeProtector(s)
	case Widen:
		w.widen(s)
	case Rollout:
		w.rollOut(n, s)
	case ScaleSource:
		w.scaleSource(s)
	case DeleteSource, CreateSource, LoseSource, LoseProtector:
		w.changeSource(s)
	case DeleteSources, ScaleSources, CreateSources, DeleteNamespace, DeleteOwner, OptOut, OptIn, ConfirmSource, ConfirmProtector, ConfirmNamespace,
		TakeBack, DeleteGenerated, LoseGrants:
		w.accident(s)
	case FreezeAggregator:
		w.judge.disturbs(s)
		w.freeze(s)
	case SecondGenerator:
		w.runSecond(n, s)
	case SyncWorkloads, ScaleWorkload, DeleteWorkload, CreateWorkload, ConfirmWorkloads, RestartPods:
		w.changeWorkloads(n, s)
	case DeleteCell, CreateCell:
		w.changeCell(n, s)
	case LoseOne, DeleteProtector, CreateProtector:
		w.endProtector(s)
	default:
		w.fault(s)
	}
}

func (w *world) cell(s Step) *clusterState { return w.workers[s.Cell%len(w.workers)] }

// pick selects an element by the index who, modulo the length. ok is false if there are no elements.
func pick[T any](all []T, who int) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[who%len(all)], true
}

func (w *world) removal(id string, pod *corev1.Pod, s Step) *removal {
	return &removal{
		id: id, pod: client.ObjectKeyFromObject(pod), evict: s.What == Evict, dryRun: s.What == DryRun, grace: s.For, stuck: s.Stuck, refusedLater: s.RefusedLater,
		relabel: relabelOf(s), change: changeOf(s),
	}
}

func (w *world) removeOne(id string, s Step) {
	c := w.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	w.later(0, func() { w.remove(c, w.removal(id, pod, s)) })
}

func (w *world) remove(c *clusterState, r *removal) string {
	word := c.remove(r)
	w.judge.answered(r, word)
	w.trace.add("%s: removal %s of %s ends: %s", c.name, r.id, r.pod.Name, word)
	return word
}

// removeAll is a deletecollection: it removes one pod after the other, and the first refusal ends it.
func (w *world) removeAll(n int, s Step) {
	c := w.cell(s)
	s.Stuck = 0
	w.later(0, func() {
		for i, pod := range c.pods() {
			if word := w.remove(c, w.removal(fmt.Sprintf("%d.%d", n, i), pod, s)); word != "removed" && word != "404" {
				return
			}
		}
	})
}

// rollOut replaces some pods, one after the other. It creates a new pod, makes it ready, and retries the deletion of an old pod up to five
// times.
func (w *world) rollOut(n int, s Step) {
	c := w.cell(s)
	w.later(0, func() {
		old := c.pods()
		for i, pod := range old[:min(len(old), 1+s.N%4)] {
			fresh := w.createPod(c, false)
			time.Sleep(w.dice.Between(100*time.Millisecond, 2*time.Second, fmt.Sprintf("rollout %d.%d", n, i)))
			_, _ = c.store.Update("pods", fresh, "", "", func(o client.Object) error {
				if pod, ok := o.(*corev1.Pod); ok {
					setReady(pod, true)
				}
				return nil
			})
			for try := range 5 {
				word := w.remove(c, w.removal(fmt.Sprintf("%d.%d.%d", n, i, try), pod, Step{What: Delete, For: time.Second}))
				if word == "removed" || word == "404" {
					break
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// changePod changes a pod without a review.
func (w *world) changePod(s Step) {
	c := w.cell(s)
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

func (w *world) changeProtector(s Step) {
	core := w.cores[s.Core%len(w.cores)]
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

func (w *world) scaleSource(s Step) {
	core := w.cores[0]
	_, _ = core.store.Update("deployments", types.NamespacedName{Namespace: namespace, Name: sourceName}, "", "user", func(o client.Object) error {
		if d, ok := o.(*appsv1.Deployment); ok {
			replicas := int32(s.N)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
		return nil
	})
}

// isCalm returns "" if the status of every protector is true and nothing is reserved. Otherwise it returns the first deviation.
func (w *world) isCalm() string {
	if word := w.areSourcesServed(); word != "" {
		return word
	}
	for _, core := range w.cores {
		if word := w.isSharedOut(core); word != "" {
			return word
		}
		for _, p := range core.protectors() {
			if word := w.isHeardOf(core.name, p); word != "" {
				return word
			}
			if word := cmp.Or(isDiscountedAnywhere(p), w.isExpected(core.name, p)); word != "" {
				return word
			}
			watched := w.judge.protectors[protectorKey{core.name, client.ObjectKeyFromObject(p)}]
			for _, worker := range w.workers {
				cell := quota.CellOf(p, worker.name)
				if cell == nil {
					return fmt.Sprintf("protector %s has no counts of %s", p.Name, worker.name)
				}
				if term := parseVersion(cell.Aggregation.TermVersion); term < core.restored {
					return fmt.Sprintf("protector %s has counts of %s of a leadership that began at %d, before the core was restored", p.Name, worker.name, term)
				}
				if cell.Aggregation.InTransition { // a new leader of the cell would begin the transition again
					return fmt.Sprintf("protector %s counts the pods of %s by an earlier spec as well", p.Name, worker.name)
				}
				want := w.judge.cells[worker.name].available(watched, time.Now())
				if got := int(cell.Aggregation.CountedReplicas); got != want || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s counts %d pods of %s, which has %d", p.Name, got, worker.name, want)
				}
				if open := w.unrenewed(&cell.AdmissionHistory); open > 0 {
					return fmt.Sprintf("protector %s has %d open reservations of %s: %s", p.Name, open, worker.name, describeStatus(p))
				}
			}
		}
	}
	return ""
}

// isHeardOf returns "" if all webhooks know what a protector covers: events that were delayed in the storm still take their time.
func (w *world) isHeardOf(core string, p *v1alpha1.PodProtector) string {
	watched := w.judge.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for _, webhook := range w.webhooks() {
		if knows, needs := webhook.knowledge()[core], max(watched.since, watched.guards); knows < needs {
			return fmt.Sprintf("%s knows protector %s of core %s as of %d, and not as of %d", webhook.name, p.Name, core, knows, needs)
		}
	}
	return ""
}
