package policy

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Ref names a source, whether it exists or not. Its version is no part of its name.
type Ref struct {
	Group, Kind, Namespace, Name string
}

// GroupKind is the kind of the source.
func (r Ref) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// Key is the name of the source among those of its kind.
func (r Ref) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// String is for people.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// RefOf names an object of a kind.
func RefOf(kind schema.GroupKind, object metav1.Object) Ref {
	return Ref{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Source is a workload that protectors are derived from.
type Source struct {
	// Kind is its own kind, with the version that it was read in.
	Kind   schema.GroupVersionKind
	Object metav1.Object
	// Scale is its scale subresource; nil for kinds whose interpreter does not ask for it.
	Scale *autoscalingv1.Scale
}

// Ref is the name of the source.
func (s Source) Ref() Ref { return RefOf(s.Kind.GroupKind(), s.Object) }

// Workload is a set of pods that a source wants: most sources are one.
type Workload struct {
	// Part tells it from others of the same source; empty when there are no others.
	Part     string
	Selector v1alpha1.PodSelector
	// Replicas is how many pods it wants over all cells; nil when the source does not tell, and only the cells know.
	Replicas        *int32
	MinReadySeconds int32
	Strategy        Strategy
}

// Strategy is what a rollout of a workload leaves of it.
type Strategy struct {
	// MinAvailable is how many pods it keeps available, when it is known how many there are.
	MinAvailable int32
	// MaxUnavailable is what it may take at once, when that is not known.
	MaxUnavailable intstr.IntOrString
	// Reason and Message tell of a floor that the owner may not expect; empty otherwise.
	Reason, Message string
}

// Interpreter reads the sources of a kind. An error is a mistake in the source, which its owner must correct.
type Interpreter interface {
	Interpret(source Source) ([]Workload, error)
}
