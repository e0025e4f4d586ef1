package sharder

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// ClusterRules are what the controllers need in all of the cluster, apart from what rings name. Names of webhook configurations are of
// rings, so that the rule cannot name them. The tests run with these, with the rules of package members, with ResourceRules and nothing
// more, and the chart must grant the same.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings/status"}, Verbs: []string{"patch"}},
		{
			APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// ResourceRules are what they need for a resource of a ring. Who makes a ring grants them.
func ResourceRules(of v1alpha1.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{of.Group}, Resources: []string{of.Resource}, Verbs: verbs()}}
}

func verbs() []string { return []string{"get", "list", "patch"} }
