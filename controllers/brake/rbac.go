package brake

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterRules returns the rules that the brake needs in all namespaces of the core cluster, besides those of the controllers that use it.
// The brake also reads owners of workloads, as far as the generator may: an owner that it may not read counts as deleted.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// Rules returns the rules that the brake needs in the namespace where the grants are stored.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{ConfigMapName}, Verbs: []string{"get", "update"}},
	}
}

// OwnerRules returns the rules that the brake needs to read owners of a kind. The user who installs Breakwater grants them.
func OwnerRules(resource schema.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"get"}}}
}
