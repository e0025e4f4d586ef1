package play

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// createUpper creates the object above a workload, if there is to be one and it does not exist, and returns a reference to it.
func (ws *workloads) createUpper(c *clusterState, plan scenario.WorkloadPlan) *metav1.OwnerReference {
	if plan.Upper == "" {
		return nil
	}
	upper := plan.UpperPlan()
	if _, err := c.store.Get(upper.Resource(), upper.Key()); err != nil {
		c.create(upper.Resource(), upper.Object())
	}
	return c.controllerReference(upper)
}

// createSets creates the ReplicaSets of a new workload: one, or one for each color.
func (ws *workloads) createSets(c *clusterState, plan scenario.WorkloadPlan) {
	switch {
	case !plan.HasSets():
	case plan.Color == "":
		ws.createSet(c, plan, "")
	default:
		for _, color := range scenario.Colors() {
			ws.createSet(c, plan, color)
		}
	}
}

func (ws *workloads) createSet(c *clusterState, plan scenario.WorkloadPlan, color string) {
	set := scenario.WorkloadPlan{
		Kind: scenario.KindReplicaSet, Name: fmt.Sprintf("%s-%d", plan.Name, ws.env.nextSerial()), Labeled: plan.Labeled, Color: color, SetOf: plan.Name,
		Controller: c.controllerReference(plan),
	}
	if plan.Labeled {
		set.Replicas = plan.Replicas
	}
	c.create("replicasets", set.Object())
}

// setsOf returns the ReplicaSets that a workload controls, oldest first.
func (c *clusterState) setsOf(workload types.UID) (sets []*appsv1.ReplicaSet) {
	objects, _ := c.store.List("replicasets", scenario.Namespace)
	for _, o := range objects {
		if set, ok := o.(*appsv1.ReplicaSet); ok && metav1.IsControlledBy(set, &metav1.ObjectMeta{UID: workload}) {
			sets = append(sets, set)
		}
	}
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int { return serialOf(a.Name) - serialOf(b.Name) })
	return sets
}

// serialOf returns the number at the end of a name.
func serialOf(name string) int {
	serial, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	return serial
}

// setOwner makes a new pod one of a workload. A Rollout with colors gets a pod of the color with the fewest pods.
func (c *clusterState) setOwner(pod *corev1.Pod, plan scenario.WorkloadPlan, owner *metav1.OwnerReference) {
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	if plan.Labeled {
		pod.Labels[scenario.WorkloadLabel] = plan.Name
	}
	workload := c.controllerReference(plan)
	if plan.Color == "" || workload == nil {
		return
	}
	sets := c.setsOf(workload.UID)
	if len(sets) == 0 {
		return
	}
	c.setColor(pod, slices.MinFunc(sets, func(a, b *appsv1.ReplicaSet) int { return len(c.podsOf(a.UID)) - len(c.podsOf(b.UID)) }))
}

// setColor makes a new pod one of the ReplicaSet of a color.
func (c *clusterState) setColor(pod *corev1.Pod, set *appsv1.ReplicaSet) {
	pod.Labels[scenario.ColorLabel] = set.Spec.Selector.MatchLabels[scenario.ColorLabel]
	pod.OwnerReferences = []metav1.OwnerReference{*c.controllerReference(scenario.WorkloadPlan{Kind: scenario.KindReplicaSet, Name: set.Name})}
}

// changeOwners executes the steps of operators and their users.
func (ws *workloads) changeOwners(n int, s scenario.Step) {
	c := ws.env.cell(s)
	plan, ok := pick(c.workloads(), s.Who)
	if !ok || !plan.Labeled {
		return
	}
	switch s.What {
	case scenario.DeleteUpper:
		if plan.Upper == "" {
			return
		}
		_, _ = c.store.Delete(plan.UpperPlan().Resource(), plan.UpperPlan().Key(), "", scenario.User)
		if s.N%2 == 0 {
			ws.env.runAfter(s.For, func() { ws.deleteLabeled(c, plan, time.Duration(n)*time.Nanosecond) })
		}
	case scenario.ScaleUpper:
		if plan.Upper != "" {
			c.updateOperated(plan.UpperPlan(), func(o *apiserver.Operated) {
				o.Spec.Replicas = int32(s.N)
				o.Generation++
			})
		}
	case scenario.ReplaceSet:
		if _, err := c.store.Get(plan.Resource(), plan.Key()); err == nil && plan.HasSets() && plan.Color == "" {
			ws.createSet(c, plan, "")
		}
	case scenario.MoveColor: // only the status changes, and not the generation
		if plan.Color != "" {
			to := plan
			to.Color = scenario.Colors()[s.N%2]
			c.updateOperated(plan, func(o *apiserver.Operated) {
				o.Status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: to.PodLabels()})
			})
		}
	}
}

func (c *clusterState) updateOperated(plan scenario.WorkloadPlan, change func(o *apiserver.Operated)) {
	_, _ = c.store.Update(plan.Resource(), plan.Key(), "", scenario.User, func(object client.Object) error {
		if o, ok := object.(*apiserver.Operated); ok {
			change(o)
		}
		return nil
	})
}

// syncLabeled is one reconciliation of a workload by its controller: it creates missing pods and requests the removal of one surplus pod.
func (ws *workloads) syncLabeled(c *clusterState, plan scenario.WorkloadPlan, id string) {
	object, err := c.store.Get(plan.Resource(), plan.Key())
	owner := c.podOwnerReference(plan)
	if err != nil || owner == nil {
		return
	}
	var surplus []*corev1.Pod
	for _, set := range c.setsOf(object.GetUID()) {
		switch {
		case plan.Color != "" && isActive(object, set):
			owner = c.controllerReference(scenario.WorkloadPlan{Kind: scenario.KindReplicaSet, Name: set.Name})
		case plan.Color != "" || set.UID != owner.UID:
			surplus = append(surplus, c.podsOf(set.UID)...)
		}
	}
	pods := c.podsOf(owner.UID)
	for i := range scenario.ReplicasOf(object) - len(pods) {
		if !ws.createOwned(c, plan, owner, i, id) {
			break
		}
	}
	surplus = append(surplus, pods[min(len(pods), scenario.ReplicasOf(object)):]...)
	if len(surplus) > 0 {
		ws.env.runAfter(0, func() {
			ws.clients.executeRemoval(c, &judge.Removal{ID: id, Pod: client.ObjectKeyFromObject(surplus[0]), Grace: time.Second})
		})
	}
}

// isActive reports whether a Rollout selects the pods of a set.
func isActive(rollout client.Object, set *appsv1.ReplicaSet) bool {
	o, ok := rollout.(*apiserver.Operated)
	return ok && o.Status.Selector == metav1.FormatLabelSelector(set.Spec.Selector)
}

// createOwned creates a pod of a workload, which becomes ready later. The pods of a StatefulSet have fixed names: it creates none while
// the next name belongs to a pod that it does not control.
func (ws *workloads) createOwned(c *clusterState, plan scenario.WorkloadPlan, owner *metav1.OwnerReference, i int, id string) bool {
	pod := ws.newPod(c)
	pod.Labels = map[string]string{"app": "x", "tier": "x"}
	c.setOwner(pod, plan, owner)
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	if plan.Color != "" {
		if set, err := c.store.Get("replicasets", types.NamespacedName{Namespace: scenario.Namespace, Name: owner.Name}); err == nil {
			c.setColor(pod, set.(*appsv1.ReplicaSet)) //nolint:forcetypeassert // the store keeps its kinds apart
		}
	}
	if plan.Kind == scenario.KindStatefulSet {
		for ordinal := 0; ; ordinal++ {
			pod.Name = fmt.Sprintf("%s-%d-%d", plan.Name, plan.Cell, ordinal)
			taken, err := c.store.Get("pods", client.ObjectKeyFromObject(pod))
			if err != nil {
				break
			}
			if !metav1.IsControlledBy(taken, &metav1.ObjectMeta{UID: owner.UID}) {
				return false
			}
		}
	}
	scenario.SetReady(pod, false)
	c.create("pods", pod)
	key := client.ObjectKeyFromObject(pod)
	ws.env.runAfter(ws.env.dice.Between(100*time.Millisecond, 2*time.Second, fmt.Sprintf("%s start of %s %d", id, key.Name, i)), func() { c.setPodReady(key) })
	return true
}

// deleteLabeled deletes a workload and its ReplicaSets. After a while the garbage collector requests the removal of its pods, several
// times. Pods whose removal is denied survive, and name a controller that does not exist.
func (ws *workloads) deleteLabeled(c *clusterState, plan scenario.WorkloadPlan, after time.Duration) {
	object, err := c.store.Get(plan.Resource(), plan.Key())
	if err != nil {
		return
	}
	owners := []types.UID{object.GetUID()}
	_, _ = c.store.Delete(plan.Resource(), plan.Key(), "", scenario.User)
	for _, set := range c.setsOf(object.GetUID()) {
		owners = append(owners, set.UID)
		_, _ = c.store.Delete("replicasets", client.ObjectKeyFromObject(set), "", "gc")
	}
	id := "gc of " + string(object.GetUID())
	ws.env.runAfter(after+ws.env.dice.Between(time.Nanosecond, time.Millisecond, id), func() {
		for try := range 3 {
			for _, owner := range owners {
				for i, pod := range c.podsOf(owner) {
					ws.clients.executeRemoval(c, &judge.Removal{ID: fmt.Sprintf("%s %d.%d", id, try, i), Pod: client.ObjectKeyFromObject(pod), Grace: time.Second})
				}
			}
			time.Sleep(2 * time.Second)
		}
	})
}
