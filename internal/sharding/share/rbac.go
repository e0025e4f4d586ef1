package share

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRules returns the permissions that a shard needs cluster-wide in the cluster of its ring.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings/status"}, Verbs: []string{"update"}},
	}
}
