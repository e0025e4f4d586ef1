package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operated is an object of a kind that an operator serves. It controls workloads or pods.
type Operated struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   OperatedSpec   `json:"spec"`
	Status OperatedStatus `json:"status"`
}

// OperatedSpec is the spec of an Operated.
type OperatedSpec struct {
	// Replicas is the number in its scale. Its unit depends on the kind and the object.
	Replicas int32 `json:"replicas"`
}

// OperatedStatus is the status of an Operated. A change of the status leaves metadata.generation unchanged.
type OperatedStatus struct {
	// Selector is the selector in its scale; empty for a kind whose scale has none.
	Selector string `json:"selector,omitempty"`
}

// DeepCopyObject returns a copy.
func (o *Operated) DeepCopyObject() runtime.Object {
	copied := &Operated{TypeMeta: o.TypeMeta, Spec: o.Spec, Status: o.Status}
	o.DeepCopyInto(&copied.ObjectMeta)
	return copied
}

func newOperated() client.Object { return &Operated{} }

// The kinds of operators, all of the group of Application, which has no scale either.
const (
	// KindRollout has ReplicaSets, and a scale in pods that selects the pods of its sets.
	KindRollout = "Rollout"
	// KindDatabase has a scale that selects pods. Its unit is shards or pods.
	KindDatabase = "Database"
	// KindPodSet controls pods, and has a scale without a selector.
	KindPodSet = "PodSet"
	// KindPodGroup controls pods, and has no scale.
	KindPodGroup = "PodGroup"
	// KindInstallation is a kind of cluster scope without a scale.
	KindInstallation = "Installation"
	// KindClusterDatabase is a Database of cluster scope.
	KindClusterDatabase = "ClusterDatabase"
	// KindIntegration has a scale that answers an error, like that of a custom resource whose replicas are not set.
	KindIntegration = "Integration"
)

// scaleMode is how a kind of an operator serves its scale.
type scaleMode int

const (
	noScale scaleMode = iota
	scaleServed
	scaleFails
)

func scaleModeOf(kind string) scaleMode {
	switch kind {
	case KindRollout, KindDatabase, KindClusterDatabase, KindPodSet:
		return scaleServed
	case KindIntegration:
		return scaleFails
	default:
		return noScale
	}
}

// operatedKinds returns the kinds of operators.
func operatedKinds() []Kind {
	kind := func(name, resource string, namespaced bool) Kind {
		return Kind{schema.GroupVersionKind{Group: Application().Group, Version: Application().Version, Kind: name}, resource, namespaced, newOperated}
	}
	return []Kind{
		kind(KindRollout, "rollouts", true), kind(KindDatabase, "databases", true), kind(KindPodSet, "podsets", true),
		kind(KindPodGroup, "podgroups", true), kind(KindInstallation, "installations", false), kind(KindClusterDatabase, "clusterdatabases", false),
		kind(KindIntegration, "integrations", true),
	}
}
