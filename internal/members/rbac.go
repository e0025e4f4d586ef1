package members

import rbacv1 "k8s.io/api/rbac/v1"

// ShardRules are what a shard needs in the namespace of its ring's shards, which watches those of the others as well and buries them.
func ShardRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "delete", "get", "list", "update", "watch"},
	}}
}

// ClusterRules are what a roll needs in all namespaces: shards of any may be those of a ring. The tests run with these, with Rules,
// and nothing more.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch"}}}
}

// Rules are what it needs in the namespace of a ring's shards, where it buries those that have fallen silent. Others' Leases are there
// too.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update", "delete"}}}
}
