package members

import rbacv1 "k8s.io/api/rbac/v1"

// Rules are what a roll needs in the namespaces whose Leases its cache holds, which are all unless it is told otherwise: to know the
// shards, and to bury those that have fallen silent. Others' Leases are there too. The tests run with these and nothing more.
func Rules() []rbacv1.PolicyRule { return leases("get", "list", "watch", "update", "delete") }

// ShardRules are what a shard needs there, which buries others as well.
func ShardRules() []rbacv1.PolicyRule { return append(Rules(), leases("create")...) }

func leases(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}}
}
