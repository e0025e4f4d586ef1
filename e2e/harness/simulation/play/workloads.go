package play

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// workloads creates and changes the pods and the workloads of worker clusters, as their users, controllers and kubelets do.
type workloads struct {
	env     *environment
	clients *clients
}

func (ws *workloads) addSteps(steps stepTable) {
	steps.add(func(s scenario.Step) { ws.createPod(ws.env.cell(s), s.Who%3 > 0) }, scenario.CreatePod)
	steps.add(func(s scenario.Step) { ws.createUnbound(ws.env.cell(s)) }, scenario.CreateUnbound)
	steps.add(ws.changePod, scenario.BecomeReady, scenario.BecomeUnready, scenario.BecomeUnknown, scenario.BecomePending, scenario.BecomeRunning,
		scenario.BecomeScheduled, scenario.SetCriterion, scenario.Die, scenario.Relabel)
	steps.addNumbered(ws.rollOut, scenario.Rollout)
	steps.addNumbered(ws.changeWorkloads, scenario.SyncWorkloads, scenario.ScaleWorkload, scenario.DeleteWorkload, scenario.CreateWorkload,
		scenario.ConfirmWorkloads, scenario.RestartPods)
	steps.addNumbered(ws.changeOwners, scenario.DeleteUpper, scenario.ScaleUpper, scenario.ReplaceSet, scenario.MoveColor)
}

// createWorkloads creates the workloads of a cluster that do not exist.
func (ws *workloads) createWorkloads(c *clusterState) {
	for _, plan := range c.workloads() {
		plan.Controller = ws.createUpper(c, plan)
		if _, err := c.store.Get(plan.Resource(), plan.Key()); err == nil {
			continue
		}
		c.create(plan.Resource(), plan.Object())
		ws.createSets(c, plan)
	}
}

// changeWorkloads executes the steps of users and controllers on workloads.
func (ws *workloads) changeWorkloads(n int, s scenario.Step) {
	c := ws.env.cell(s)
	plan, ok := pick(c.workloads(), s.Who)
	if !ok {
		return
	}
	switch s.What {
	case scenario.SyncWorkloads:
		for i, plan := range c.workloads() {
			if id := fmt.Sprintf("%d.%d", n, i); plan.Labeled {
				ws.syncLabeled(c, plan, id)
			} else {
				ws.syncWorkload(c, plan, id)
			}
		}
	case scenario.ScaleWorkload:
		_, _ = c.store.Update(plan.Resource(), plan.Key(), "", scenario.User, func(o client.Object) error {
			replicas := int32(s.N)
			switch o := o.(type) {
			case *appsv1.Deployment:
				o.Spec.Replicas = &replicas
			case *appsv1.StatefulSet:
				o.Spec.Replicas = &replicas
			case *appsv1.ReplicaSet:
				o.Spec.Replicas = &replicas
			case *apiserver.Operated:
				o.Spec.Replicas = replicas
			}
			o.SetGeneration(o.GetGeneration() + 1)
			return nil
		})
	case scenario.DeleteWorkload:
		ws.deleteWorkload(c, plan, s.For)
	case scenario.CreateWorkload:
		ws.createWorkloads(c)
	case scenario.ConfirmWorkloads:
		ws.confirmWorkloads(s)
	case scenario.RestartPods:
		for i, pod := range c.pods() {
			ws.env.runAfter(time.Duration(i)*time.Millisecond, func() {
				ws.clients.executeRemoval(c, &judge.Removal{ID: fmt.Sprintf("%d.%d", n, i), Pod: client.ObjectKeyFromObject(pod), Grace: max(s.For, time.Second)})
			})
		}
	}
}

// syncWorkload is one reconciliation of a workload by its controller. It creates missing pods, which become ready later, and removes one
// surplus pod.
func (ws *workloads) syncWorkload(c *clusterState, plan scenario.WorkloadPlan, id string) {
	object, err := c.store.Get(plan.Resource(), plan.Key())
	owner := c.podOwnerReference(plan)
	if err != nil || owner == nil {
		return
	}
	pods := c.podsOf(owner.UID)
	for range scenario.ReplicasOf(object) - len(pods) {
		key := ws.createPod(c, false)
		ws.env.runAfter(ws.env.dice.Between(100*time.Millisecond, 2*time.Second, id+" start of "+key.Name), func() { c.setPodReady(key) })
	}
	if surplus := len(pods) - scenario.ReplicasOf(object); surplus > 0 {
		pod := pods[len(pods)-1]
		ws.env.runAfter(0, func() {
			ws.clients.executeRemoval(c, &judge.Removal{ID: id, Pod: client.ObjectKeyFromObject(pod), Grace: time.Second})
		})
	}
}

// deleteWorkload deletes a workload. The garbage collector removes the objects that it owned after a while.
func (ws *workloads) deleteWorkload(c *clusterState, plan scenario.WorkloadPlan, after time.Duration) {
	owner := c.podOwnerReference(plan)
	if owner == nil {
		return
	}
	if plan.Labeled {
		ws.deleteLabeled(c, plan, after)
		return
	}
	_, _ = c.store.Delete(plan.Resource(), plan.Key(), "", scenario.User)
	if owner.Kind == scenario.KindReplicaSet {
		_, _ = c.store.Delete("replicasets", types.NamespacedName{Namespace: scenario.Namespace, Name: owner.Name}, "", "gc")
	}
	ws.env.runAfter(after+ws.env.dice.Between(time.Nanosecond, time.Millisecond, "gc of "+string(owner.UID)), func() {
		for _, pod := range c.podsOf(owner.UID) {
			_, _ = c.store.Delete("pods", client.ObjectKeyFromObject(pod), "", "gc")
		}
	})
}

// confirmWorkloads confirms for a while on a protector that its deleted workloads are released.
func (ws *workloads) confirmWorkloads(s scenario.Step) {
	core := ws.env.core(s)
	mine := slices.DeleteFunc(core.protectors(), func(p *v1alpha1.PodProtector) bool { return p.Labels != nil })
	p, ok := pick(mine, s.Who)
	if !ok {
		return
	}
	annotate := func(value string) {
		_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", scenario.User, func(o client.Object) error {
			annotations := map[string]string{}
			for key, value := range o.GetAnnotations() {
				annotations[key] = value
			}
			annotations[v1alpha1.AnnotationConfirmRelease] = value
			if value == "" {
				delete(annotations, v1alpha1.AnnotationConfirmRelease)
			}
			o.SetAnnotations(annotations)
			return nil
		})
	}
	annotate("true")
	ws.env.runAfter(s.For+time.Second+ws.env.dice.Between(time.Nanosecond, time.Millisecond, "confirmation of "+p.Name), func() { annotate("") })
}
