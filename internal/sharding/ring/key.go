package ring

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A key begins with what it is: of one object, or shared by several, which are not to be spread.
const (
	ofObject    = "object/"
	ofNamespace = "namespace/"
	ofAnnotated = "shared/"
	ofGenerated = "generated/"
)

// KeyOf is what an object of a ring's resource is assigned by. It is empty for an object that has neither a name nor an
// annotation yet: the apiserver makes names of generateName after it has asked.
func KeyOf(policy v1alpha1.KeyPolicy, of v1alpha1.GroupResource, object metav1.Object) string {
	own := object.GetAnnotations()[v1alpha1.AnnotationShardingKey]
	switch {
	case strings.HasPrefix(own, ofGenerated):
		return own
	case own != "":
		return ofAnnotated + own
	case policy == v1alpha1.KeyPolicyNamespace && object.GetNamespace() != "":
		return ofNamespace + object.GetNamespace()
	case object.GetName() == "":
		return ""
	}
	return ofObject + strings.Join([]string{of.Group, of.Resource, object.GetNamespace(), object.GetName()}, "/")
}

// Generated is the annotation, and key, of an object whose name is not made yet, by something that no other has.
func Generated(by string) string { return ofGenerated + by }

// isShared tells whether objects of a key must be together.
func isShared(key string) bool {
	return strings.HasPrefix(key, ofNamespace) || strings.HasPrefix(key, ofAnnotated)
}
