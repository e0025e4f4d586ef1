package ring

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A key begins with its type: of one object, or shared by several objects that must stay together.
const (
	objectPrefix    = "object/"
	namespacePrefix = "namespace/"
	sharedPrefix    = "shared/"
	generatedPrefix = "generated/"
)

// KeyOf returns the key by which an object of a ring's resource is assigned. It is empty for an object that has neither a name nor an
// annotation yet: the API server generates names from generateName after it has called the webhook.
func KeyOf(policy v1alpha1.KeyPolicy, of v1alpha1.GroupResource, object metav1.Object) string {
	own := object.GetAnnotations()[v1alpha1.AnnotationShardingKey]
	switch {
	case strings.HasPrefix(own, generatedPrefix):
		return own
	case own != "":
		return sharedPrefix + own
	case policy == v1alpha1.KeyPolicyNamespace && object.GetNamespace() != "":
		return namespacePrefix + object.GetNamespace()
	case object.GetName() == "":
		return ""
	}
	return objectPrefix + strings.Join([]string{of.Group, of.Resource, object.GetNamespace(), object.GetName()}, "/")
}

// Generated returns the annotation, and key, for an object whose name is not generated yet, from a unique text.
func Generated(unique string) string { return generatedPrefix + unique }

// isShared reports whether objects with a key must stay together.
func isShared(key string) bool {
	return strings.HasPrefix(key, namespacePrefix) || strings.HasPrefix(key, sharedPrefix)
}
