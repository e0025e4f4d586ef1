package keeper

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRules are what the keeper needs in all namespaces of the core cluster, besides what the controller beside it has.
// The tests run with these and nothing more, and the chart must grant the same.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "get", "patch"}},
	}
}
