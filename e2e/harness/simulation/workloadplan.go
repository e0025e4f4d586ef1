package simulation

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

const (
	kindDeployment  = "Deployment"
	kindReplicaSet  = "ReplicaSet"
	kindStatefulSet = "StatefulSet"
)

// WorkloadPlan is a workload of a worker cluster. A Deployment and a Rollout have a ReplicaSet, which owns the pods.
type WorkloadPlan struct {
	Cell       int
	Kind, Name string
	Replicas   int
	// Upper is the kind of the object of an operator that controls the workload, and UpperReplicas the number in its scale; see owners.go.
	Upper         string
	UpperReplicas int
	// Labelled makes the workload select its pods by a label that only they have. Color is the color of the pods that its scale selects
	// first; empty for all of its pods.
	Labelled bool
	Color    string
	// setOf is the name of the workload that a ReplicaSet belongs to. controller is the controller of the workload.
	setOf      string
	controller *metav1.OwnerReference
}

func (p WorkloadPlan) key() types.NamespacedName { return keyOf(p.Kind, namespace, p.Name) }

// keyOf returns the name of an object that objects of a namespace refer to.
func keyOf(kind, namespace, name string) types.NamespacedName {
	if kind == apiserver.KindInstallation || kind == apiserver.KindClusterDatabase {
		namespace = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (p WorkloadPlan) resource() string { return strings.ToLower(p.Kind) + "s" }

func (p WorkloadPlan) object() client.Object {
	replicas, meta := int32(p.Replicas), metav1.ObjectMeta{Namespace: p.key().Namespace, Name: p.Name}
	if p.controller != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*p.controller}
	}
	selector := &metav1.LabelSelector{MatchLabels: p.podLabels()}
	switch p.Kind {
	case kindDeployment:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector}}
	case kindReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector}}
	case kindStatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector}}
	default:
		return p.operatedObject(meta)
	}
}

// replicasOf returns how many pods a workload wants.
func replicasOf(object client.Object) int {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return int(*o.Spec.Replicas)
	case *apiserver.Operated:
		return int(o.Spec.Replicas)
	}
	return 0
}

// workloads returns the plans of a cluster's workloads.
func (c *clusterState) workloads() (plans []WorkloadPlan) {
	for _, plan := range c.env.scenario.Workloads {
		if c.env.workers[plan.Cell%len(c.env.workers)] == c {
			plans = append(plans, plan)
		}
	}
	return plans
}

// controllerReference returns a reference to a workload as the controller of an object; nil if the workload does not exist.
func (c *clusterState) controllerReference(plan WorkloadPlan) *metav1.OwnerReference {
	object, err := c.store.Get(plan.resource(), plan.key())
	if err != nil {
		return nil
	}
	isController := true
	return &metav1.OwnerReference{APIVersion: plan.apiVersion(), Kind: plan.Kind, Name: plan.Name, UID: object.GetUID(), Controller: &isController}
}

// podOwnerReference returns a reference to the owner of the pods of a workload; nil if the workload does not exist.
func (c *clusterState) podOwnerReference(plan WorkloadPlan) *metav1.OwnerReference {
	workload := c.controllerReference(plan)
	if workload == nil || !plan.hasSets() {
		return workload
	}
	sets := c.setsOf(workload.UID)
	if len(sets) == 0 {
		return nil
	}
	return c.controllerReference(WorkloadPlan{Kind: kindReplicaSet, Name: sets[len(sets)-1].GetName()})
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
		APIVersion: plans[0].apiVersion(), Kind: plans[0].Kind, Name: plans[0].Name, UID: "of-a-deleted-workload", Controller: new(bool),
	}
	*chosen.Controller = true
	of := plans[0]
	for _, plan := range plans {
		owner := c.podOwnerReference(plan)
		if owner == nil {
			continue
		}
		chosen, of = owner, plan
		if object, err := c.store.Get(plan.resource(), plan.key()); err == nil && len(c.podsOf(owner.UID)) < replicasOf(object) {
			break
		}
	}
	c.setOwner(pod, of, chosen)
}
