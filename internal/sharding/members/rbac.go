package members

import rbacv1 "k8s.io/api/rbac/v1"

// Rules returns the permissions that a ShardTracker needs in the namespaces of the Leases in its cache, which by default are all namespaces.
// It watches the shards, and tombstones those that have become silent. These namespaces also contain unrelated Leases. The tests run
// with exactly these permissions.
func Rules() []rbacv1.PolicyRule { return leases("get", "list", "watch", "update", "delete") }

// ShardRules returns the permissions that a shard needs there. A shard also tombstones others.
func ShardRules() []rbacv1.PolicyRule { return append(Rules(), leases("create")...) }

func leases(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}}
}
