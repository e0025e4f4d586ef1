package ring

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// KeyOf is what an object of a ring's resource is assigned by. It is empty for an object that has neither a name nor an
// annotation yet: the apiserver makes names of generateName after it has asked.
func KeyOf(policy v1alpha1.KeyPolicy, of v1alpha1.GroupResource, object metav1.Object) string {
	if own := object.GetAnnotations()[v1alpha1.AnnotationShardingKey]; own != "" {
		return own
	}
	if policy == v1alpha1.KeyPolicyNamespace && object.GetNamespace() != "" {
		return "namespace/" + object.GetNamespace()
	}
	if object.GetName() == "" {
		return ""
	}
	return strings.Join([]string{"object", of.Group, of.Resource, object.GetNamespace(), object.GetName()}, "/")
}
