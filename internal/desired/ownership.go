package desired

import (
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The label that tells who manages an object, and its value on generated protectors.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "breakwater-generator"
)

// IsGenerated tells whether a protector is the generator's own. Its label says so; so does its finalizer, which
// nobody else sets, so that a hand that takes the label away has not taken the protector over.
func IsGenerated(p *v1alpha1.PodProtector) bool {
	return p.Labels[LabelManagedBy] == ManagedBy || slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector)
}

// SourceName is the name of the Deployment that a protector belongs to, by its annotation if that fits its name,
// otherwise by its name: an annotation edited by hand must not make us lose the source. ok is false when neither
// leads to a Deployment.
func SourceName(p *v1alpha1.PodProtector) (name string, ok bool) {
	if name := p.Annotations[v1alpha1.AnnotationSourceName]; name != "" && ProtectorName(name) == p.Name {
		return name, true
	}
	name, ok = strings.CutPrefix(p.Name, deploymentPrefix)
	return name, ok && ProtectorName(name) == p.Name
}
