package sharder

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// ClusterRules returns the rules that the controllers need in the whole cluster, apart from the resources that rings name. The names of
// webhook configurations depend on the rings, so the rule cannot name them. The tests run with these rules, with those of package members,
// with ResourceRules and nothing more, and the chart must grant the same.
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

// ResourceRules returns the rules that the controllers need for a resource of a ring. The user who creates a ring grants them.
func ResourceRules(gr v1alpha1.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{gr.Group}, Resources: []string{gr.Resource}, Verbs: verbs()}}
}

func verbs() []string { return []string{"get", "list", "patch"} }
