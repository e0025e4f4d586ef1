package policy

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Ref identifies a source, which need not exist. It does not include the API version.
type Ref struct {
	Group, Kind, Namespace, Name string
}

// GroupKind returns the kind of the source.
func (r Ref) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// Key returns the namespace and name of the source.
func (r Ref) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// String is informational.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// RefOf returns the Ref of an object of a kind.
func RefOf(kind schema.GroupKind, object metav1.Object) Ref {
	return Ref{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Source is a workload from which protectors are derived.
type Source struct {
	// Kind is the source's own kind, with the version in which it was read.
	Kind   schema.GroupVersionKind
	Object metav1.Object
	// Scale is the scale subresource of the source. It is nil for kinds whose interpreter does not need it.
	Scale *autoscalingv1.Scale
}

// Ref returns the identity of the source.
func (s Source) Ref() Ref { return RefOf(s.Kind.GroupKind(), s.Object) }

// Workload is a set of pods that a source wants. Most sources have one workload.
type Workload struct {
	// Part distinguishes the workloads of one source. It is empty if there is only one.
	Part     string
	Selector v1alpha1.PodSelector
	// Replicas is the number of pods that the workload wants over all cells. It is nil if the source does not specify it and only the
	// cells have the number.
	Replicas        *int32
	MinReadySeconds int32
	Strategy        Strategy
}

// Strategy describes how many pods a rollout of a workload makes unavailable.
type Strategy struct {
	// MinAvailable is the number of pods that a rollout keeps available, if Replicas is set.
	MinAvailable int32
	// MaxUnavailable is the number of pods that a rollout may make unavailable at once, for a workload without Replicas.
	MaxUnavailable intstr.IntOrString
	// Reason and Message explain a floor that the owner may not expect. They are empty otherwise.
	Reason, Message string
}

// Interpreter derives workloads from the sources of a kind. It returns an error for a mistake in the source, which the owner must
// correct.
type Interpreter interface {
	Interpret(source Source) ([]Workload, error)
}
