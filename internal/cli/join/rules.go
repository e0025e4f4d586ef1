package join

import rbacv1 "k8s.io/api/rbac/v1"

// NamespaceRules are the permissions that a user of join needs in Breakwater's namespace of both clusters. The tests run with these and
// ClusterRules only.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "create", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "create", "patch", "delete"}},
	}
}

// ClusterRules are the additional cluster-wide permissions, for that value of --service-account. In a worker, join reads no Cells and
// creates no accounts.
func ClusterRules(serviceAccount string) []rbacv1.PolicyRule {
	role := []string{cellRole(serviceAccount)}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells"}, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: role, Verbs: []string{"get", "bind"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: role, Verbs: []string{"bind"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: []string{"get", "create", "patch", "delete"}},
	}
}
