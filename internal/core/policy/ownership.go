package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The label that records the manager of an object, and its value on generated protectors.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "breakwater-generator"
)

// IsGenerated reports whether the generator owns a protector. Its label marks it. So does its finalizer, which no other component
// sets: a user who removes the label does not take over the protector.
func IsGenerated(p *v1alpha1.PodProtector) bool {
	return p.Labels[LabelManagedBy] == ManagedBy || slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector)
}

// BuiltIn returns the built-in Kubernetes kinds that have interpreters.
func BuiltIn() map[schema.GroupVersionKind]Interpreter {
	return map[schema.GroupVersionKind]Interpreter{
		{Group: "apps", Version: "v1", Kind: "Deployment"}:        Deployments{},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}:       StatefulSets{},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:        ReplicaSets{},
		{Group: "", Version: "v1", Kind: "ReplicationController"}: ReplicationControllers{},
	}
}

// SourceOf returns the workload that a protector belongs to. It uses the annotations if they match the protector's name, and the name
// otherwise, so that a manual edit of an annotation does not lose the source. ok is false if neither identifies a workload. The
// version is empty if only the name identifies a kind that is not built in.
func SourceOf(p *v1alpha1.PodProtector) (source Ref, version string, ok bool) {
	group, err := schema.ParseGroupVersion(p.Annotations[v1alpha1.AnnotationSourceAPIVersion])
	annotated := Ref{Group: group.Group, Kind: p.Labels[v1alpha1.LabelSourceKind], Namespace: p.Namespace, Name: p.Annotations[v1alpha1.AnnotationSourceName]}
	if err == nil && annotated.Kind != "" && annotated.Name != "" && PartName(annotated, p.Annotations[v1alpha1.AnnotationSourcePart]) == p.Name {
		return annotated, group.Version, true
	}
	prefix, rest, found := strings.Cut(p.Name, "-")
	if !found {
		return Ref{}, "", false
	}
	for kind := range BuiltIn() {
		if strings.ToLower(kind.Kind) != prefix {
			continue
		}
		for _, name := range []string{annotated.Name, rest} {
			source := Ref{Group: kind.Group, Kind: kind.Kind, Namespace: p.Namespace, Name: name}
			if name != "" && ProtectorName(source) == p.Name {
				return source, kind.Version, true
			}
		}
	}
	return Ref{}, "", false
}
