package clusters

import rbacv1 "k8s.io/api/rbac/v1"

// ElectionRules returns the rules that a component needs in the namespace of its Lease. Leader election still records events of the core
// group; all other events are in events.k8s.io.
func ElectionRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}
