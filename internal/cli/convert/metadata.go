package convert

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metadataOf returns the metadata for the conversion of an object.
func metadataOf(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:   object.GetNamespace(),
		Name:        object.GetName(),
		Labels:      userMetadata(object.GetLabels()),
		Annotations: userMetadata(object.GetAnnotations()),
	}
}

// userMetadata returns the labels or annotations to copy: those of users, not those of tools. A tool that finds its own mark on an object
// that it did not create may delete the object or change it.
func userMetadata(from map[string]string) map[string]string {
	kept := maps.Clone(from)
	maps.DeleteFunc(kept, func(key, _ string) bool { return isToolKey(key) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func isToolKey(key string) bool {
	switch key {
	case "app.kubernetes.io/managed-by", "app.kubernetes.io/instance": // Helm's, and Argo CD's if it tracks by label
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	for _, tool := range []string{
		"kubectl.kubernetes.io", "applyset.kubernetes.io", "config.kubernetes.io", "config.k8s.io",
		"helm.sh", "argoproj.io", "fluxcd.io", "cattle.io", "resources.gardener.cloud", "breakwater.dev",
	} {
		if domain == tool || strings.HasSuffix(domain, "."+tool) {
			return true
		}
	}
	return false
}
