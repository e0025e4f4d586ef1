package play

import (
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// clusterState is one cluster: its store, and the requests that its API server carries out.
type clusterState struct {
	name      string
	env       *environment
	processes *processes
	store     *apiserver.Store
	// countedVersion is its version when all protectors had been counted for the first time.
	countedVersion uint64
	// judged is the cluster as the judge reads it.
	judged *judge.Cluster
	// restoredAt is when it was last restored. No cache of its API servers is older.
	restoredAt time.Time
	// unanswered is when the last removal ended without an answer, in Unix nanoseconds. Its webhook may still reserve it until the timeout.
	unanswered atomic.Int64
}

func (c *clusterState) create(resource string, object client.Object) {
	if _, err := c.store.Create(resource, object, ""); err != nil {
		panic(fmt.Sprintf("simulation: create %s: %v", object.GetName(), err))
	}
}

// setPodReady makes a pod ready, as its kubelet does.
func (c *clusterState) setPodReady(key types.NamespacedName) {
	_, _ = c.store.Update("pods", key, "", "", func(o client.Object) error {
		if pod, ok := o.(*corev1.Pod); ok {
			scenario.SetReady(pod, true)
		}
		return nil
	})
}

// pods returns the pods of a cell that are not terminating, by name.
func (c *clusterState) pods() []*corev1.Pod {
	objects, _ := c.store.List("pods", "")
	var existing []*corev1.Pod
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil {
			existing = append(existing, p)
		}
	}
	return existing
}

func (c *clusterState) protectors() []*v1alpha1.PodProtector { return c.judged.Protectors() }

// workloads returns the plans of a cluster's workloads.
func (c *clusterState) workloads() (plans []scenario.WorkloadPlan) {
	for _, plan := range c.env.scenario.Workloads {
		if c.env.workers[plan.Cell%len(c.env.workers)] == c {
			plans = append(plans, plan)
		}
	}
	return plans
}

// controllerReference returns a reference to a workload as the controller of an object; nil if the workload does not exist.
func (c *clusterState) controllerReference(plan scenario.WorkloadPlan) *metav1.OwnerReference {
	object, err := c.store.Get(plan.Resource(), plan.Key())
	if err != nil {
		return nil
	}
	isController := true
	return &metav1.OwnerReference{APIVersion: plan.APIVersion(), Kind: plan.Kind, Name: plan.Name, UID: object.GetUID(), Controller: &isController}
}

// podOwnerReference returns a reference to the owner of the pods of a workload; nil if the workload does not exist.
func (c *clusterState) podOwnerReference(plan scenario.WorkloadPlan) *metav1.OwnerReference {
	workload := c.controllerReference(plan)
	if workload == nil || !plan.HasSets() {
		return workload
	}
	sets := c.setsOf(workload.UID)
	if len(sets) == 0 {
		return nil
	}
	return c.controllerReference(scenario.WorkloadPlan{Kind: scenario.KindReplicaSet, Name: sets[len(sets)-1].GetName()})
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
	chosen := &metav1.OwnerReference{
		APIVersion: plans[0].APIVersion(), Kind: plans[0].Kind, Name: plans[0].Name, UID: "of-a-deleted-workload", Controller: new(bool),
	}
	*chosen.Controller = true
	of := plans[0]
	for _, plan := range plans {
		owner := c.podOwnerReference(plan)
		if owner == nil {
			continue
		}
		chosen, of = owner, plan
		if object, err := c.store.Get(plan.Resource(), plan.Key()); err == nil && len(c.podsOf(owner.UID)) < scenario.ReplicasOf(object) {
			break
		}
	}
	c.setOwner(pod, of, chosen)
}
