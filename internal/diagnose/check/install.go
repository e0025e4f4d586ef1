package check

import "k8s.io/apimachinery/pkg/runtime/schema"

// InstalledResources are the resources of which an installation of the chart with its default values creates objects, hooks and a test included.
func InstalledResources() (all []schema.GroupResource) {
	for _, of := range []struct {
		group     string
		resources []string
	}{
		{"apiextensions.k8s.io", []string{"customresourcedefinitions"}},
		{"rbac.authorization.k8s.io", []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"}},
		{"admissionregistration.k8s.io", []string{"validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings"}},
		{"flowcontrol.apiserver.k8s.io", []string{"flowschemas"}},
		{"", []string{"namespaces", "secrets", "services", "serviceaccounts", "pods"}},
		{"apps", []string{"deployments"}},
		{"batch", []string{"jobs"}},
		{"policy", []string{"poddisruptionbudgets"}},
		{"breakwater.dev", []string{"cells"}},
	} {
		for _, resource := range of.resources {
			all = append(all, schema.GroupResource{Group: of.group, Resource: resource})
		}
	}
	return all
}
