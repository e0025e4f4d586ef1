package keeper

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRules returns the rules that the keeper needs in all namespaces of the core cluster, besides those of the controller beside it.
// The tests run with these and nothing more, and the chart must grant the same.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"update"}},
		{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{crdName}, Verbs: []string{"get"},
		},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "get", "patch"}},
	}
}
