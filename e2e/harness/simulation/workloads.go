package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const (
	kindDeployment  = "Deployment"
	kindReplicaSet  = "ReplicaSet"
	kindStatefulSet = "StatefulSet"
)

// WorkloadPlan is a workload of a worker cluster. A Deployment has a ReplicaSet, which owns the pods.
type WorkloadPlan struct {
	Cell           int
	Kind, Name     string
	Replicas       int
	isReplicaSetOf *metav1.OwnerReference
}

func (p WorkloadPlan) key() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: p.Name}
}

func (p WorkloadPlan) resource() string { return strings.ToLower(p.Kind) + "s" }

func (p WorkloadPlan) object() client.Object {
	replicas, meta := int32(p.Replicas), metav1.ObjectMeta{Namespace: namespace, Name: p.Name}
	if p.isReplicaSetOf != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*p.isReplicaSetOf}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	switch p.Kind {
	case kindDeployment:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector}}
	case kindReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector}}
	default:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector}}
	}
}

// replicasOf returns how many pods a workload wants.
func replicasOf(object client.Object) int {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	}
	return 0
}

// workloads returns the plans of a cluster's workloads.
func (c *clusterState) workloads() (plans []WorkloadPlan) {
	for _, plan := range c.simulator.scenario.Workloads {
		if c.simulator.workers[plan.Cell%len(c.simulator.workers)] == c {
			plans = append(plans, plan)
		}
	}
	return plans
}

// createWorkloads creates the workloads of a cluster that do not exist.
func (sim *simulator) createWorkloads(c *clusterState) {
	for _, plan := range c.workloads() {
		if _, err := c.store.Get(plan.resource(), plan.key()); err == nil {
			continue
		}
		c.create(plan.resource(), plan.object())
		if plan.Kind == kindDeployment {
			sim.mu.Lock()
			sim.serial++
			name := fmt.Sprintf("%s-%d", plan.Name, sim.serial)
			sim.mu.Unlock()
			c.create("replicasets", WorkloadPlan{Kind: kindReplicaSet, Name: name, isReplicaSetOf: c.controllerReference(plan)}.object())
		}
	}
}

// controllerReference returns a reference to a workload as the controller of an object; nil if the workload does not exist.
func (c *clusterState) controllerReference(plan WorkloadPlan) *metav1.OwnerReference {
	object, err := c.store.Get(plan.resource(), plan.key())
	if err != nil {
		return nil
	}
	isController := true
	return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: plan.Kind, Name: plan.Name, UID: object.GetUID(), Controller: &isController}
}

// podOwnerReference returns a reference to the owner of the pods of a workload; nil if the workload does not exist.
func (c *clusterState) podOwnerReference(plan WorkloadPlan) *metav1.OwnerReference {
	workload := c.controllerReference(plan)
	if workload == nil || plan.Kind != kindDeployment {
		return workload
	}
	sets, _ := c.store.List("replicasets", namespace)
	for _, set := range sets {
		if metav1.IsControlledBy(set, &metav1.ObjectMeta{UID: workload.UID}) {
			return c.controllerReference(WorkloadPlan{Kind: kindReplicaSet, Name: set.GetName()})
		}
	}
	return nil
}

// podsOf returns the pods of an owner that are neither terminating nor finished.
func (c *clusterState) podsOf(owner types.UID) (pods []*corev1.Pod) {
	for _, pod := range c.pods() {
		isFinished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if !isFinished && metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: owner}) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// assignOwner assigns a new pod to the first workload that lacks pods, or else to the last that exists. If none exists, the pod looks like a
// leftover of a deleted workload.
func (c *clusterState) assignOwner(pod *corev1.Pod) {
	plans := c.workloads()
	if len(plans) == 0 || len(pod.OwnerReferences) > 0 {
		return
	}
	chosen := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: plans[0].Kind, Name: plans[0].Name, UID: "of-a-deleted-workload", Controller: new(bool)}
	*chosen.Controller = true
	for _, plan := range plans {
		owner := c.podOwnerReference(plan)
		if owner == nil {
			continue
		}
		chosen = owner
		if object, err := c.store.Get(plan.resource(), plan.key()); err == nil && len(c.podsOf(owner.UID)) < replicasOf(object) {
			break
		}
	}
	pod.OwnerReferences = []metav1.OwnerReference{*chosen}
}

// changeWorkloads executes the steps of users and controllers on workloads.
func (sim *simulator) changeWorkloads(n int, s Step) {
	c := sim.cell(s)
	plan, ok := pick(c.workloads(), s.Who)
	if !ok {
		return
	}
	switch s.What {
	case SyncWorkloads:
		for i, plan := range c.workloads() {
			sim.syncWorkload(c, plan, fmt.Sprintf("%d.%d", n, i))
		}
	case ScaleWorkload:
		_, _ = c.store.Update(plan.resource(), plan.key(), "", user, func(o client.Object) error {
			replicas := int32(s.N)
			switch o := o.(type) {
			case *appsv1.Deployment:
				o.Spec.Replicas = &replicas
			case *appsv1.StatefulSet:
				o.Spec.Replicas = &replicas
			}
			o.SetGeneration(o.GetGeneration() + 1)
			return nil
		})
	case DeleteWorkload:
		sim.deleteWorkload(c, plan, s.For)
	case CreateWorkload:
		sim.createWorkloads(c)
	case ConfirmWorkloads:
		sim.confirmWorkloads(s)
	case RestartPods:
		for i, pod := range c.pods() {
			sim.runAfter(time.Duration(i)*time.Millisecond, func() {
				sim.executeRemoval(c, &removal{id: fmt.Sprintf("%d.%d", n, i), pod: client.ObjectKeyFromObject(pod), grace: max(s.For, time.Second)})
			})
		}
	}
}

// syncWorkload is one reconciliation of a workload by its controller. It creates missing pods, which become ready later, and removes one
// surplus pod.
func (sim *simulator) syncWorkload(c *clusterState, plan WorkloadPlan, id string) {
	object, err := c.store.Get(plan.resource(), plan.key())
	owner := c.podOwnerReference(plan)
	if err != nil || owner == nil {
		return
	}
	pods := c.podsOf(owner.UID)
	for range replicasOf(object) - len(pods) {
		key := sim.createPod(c, false)
		sim.runAfter(sim.dice.Between(100*time.Millisecond, 2*time.Second, id+" start of "+key.Name), func() {
			_, _ = c.store.Update("pods", key, "", "", func(o client.Object) error {
				if pod, ok := o.(*corev1.Pod); ok {
					setReady(pod, true)
				}
				return nil
			})
		})
	}
	if surplus := len(pods) - replicasOf(object); surplus > 0 {
		pod := pods[len(pods)-1]
		sim.runAfter(0, func() {
			sim.executeRemoval(c, &removal{id: id, pod: client.ObjectKeyFromObject(pod), grace: time.Second})
		})
	}
}

// deleteWorkload deletes a workload. The garbage collector removes the objects that it owned after a while.
func (sim *simulator) deleteWorkload(c *clusterState, plan WorkloadPlan, after time.Duration) {
	owner := c.podOwnerReference(plan)
	if owner == nil {
		return
	}
	_, _ = c.store.Delete(plan.resource(), plan.key(), "", user)
	if owner.Kind == kindReplicaSet {
		_, _ = c.store.Delete("replicasets", types.NamespacedName{Namespace: namespace, Name: owner.Name}, "", "gc")
	}
	sim.runAfter(after+sim.dice.Between(time.Nanosecond, time.Millisecond, "gc of "+string(owner.UID)), func() {
		for _, pod := range c.podsOf(owner.UID) {
			_, _ = c.store.Delete("pods", client.ObjectKeyFromObject(pod), "", "gc")
		}
	})
}

// confirmWorkloads confirms for a while on a protector that its deleted workloads are released.
func (sim *simulator) confirmWorkloads(s Step) {
	core := sim.cores[s.Core%len(sim.cores)]
	mine := slices.DeleteFunc(core.protectors(), func(p *v1alpha1.PodProtector) bool { return p.Labels != nil })
	p, ok := pick(mine, s.Who)
	if !ok {
		return
	}
	annotate := func(value string) {
		_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", user, func(o client.Object) error {
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
	sim.runAfter(s.For+time.Second+sim.dice.Between(time.Nanosecond, time.Millisecond, "confirmation of "+p.Name), func() { annotate("") })
}
