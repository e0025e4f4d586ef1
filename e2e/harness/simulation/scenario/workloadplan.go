package scenario

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// Kinds of workloads that Kubernetes has itself.
const (
	KindDeployment  = "Deployment"
	KindReplicaSet  = "ReplicaSet"
	KindStatefulSet = "StatefulSet"
)

// WorkloadPlan is a workload of a worker cluster. A Deployment and a Rollout have a ReplicaSet, which owns the pods.
type WorkloadPlan struct {
	Cell       int
	Kind, Name string
	Replicas   int
	// Upper is the kind of the object of an operator that controls the workload, and UpperReplicas the number in its scale; see owners.go.
	Upper         string
	UpperReplicas int
	// Labeled makes the workload select its pods by a label that only they have. Color is the color of the pods that its scale selects
	// first; empty for all of its pods.
	Labeled bool
	Color   string
	// SetOf is the name of the workload that a ReplicaSet belongs to. Controller is the controller of the workload.
	SetOf      string                 `json:"-"`
	Controller *metav1.OwnerReference `json:"-"`
}

// Key returns the name of the workload.
func (p WorkloadPlan) Key() types.NamespacedName { return KeyOf(p.Kind, Namespace, p.Name) }

// KeyOf returns the name of an object that objects of a namespace refer to.
func KeyOf(kind, namespace, name string) types.NamespacedName {
	if kind == apiserver.KindInstallation || kind == apiserver.KindClusterDatabase {
		namespace = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Resource returns the resource of the kind of the workload.
func (p WorkloadPlan) Resource() string { return strings.ToLower(p.Kind) + "s" }

// Object returns the workload as a user creates it.
func (p WorkloadPlan) Object() client.Object {
	replicas, meta := int32(p.Replicas), metav1.ObjectMeta{Namespace: p.Key().Namespace, Name: p.Name}
	if p.Controller != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*p.Controller}
	}
	selector := &metav1.LabelSelector{MatchLabels: p.PodLabels()}
	switch p.Kind {
	case KindDeployment:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector}}
	case KindReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector}}
	case KindStatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector}}
	default:
		return p.operatedObject(meta)
	}
}

// ReplicasOf returns how many pods a workload wants.
func ReplicasOf(object client.Object) int {
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
