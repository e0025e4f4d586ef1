package join

import rbacv1 "k8s.io/api/rbac/v1"

// NamespaceRules are what who joins needs in Breakwater's namespace of both clusters. The tests run with these, with
// ClusterRules, and nothing more.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
	}
}

// ClusterRules are what who joins needs besides. In a worker no Cells are looked at.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells"}, Verbs: []string{"get", "create", "patch"}},
	}
}
