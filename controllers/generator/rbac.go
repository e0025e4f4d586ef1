package generator

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterRules returns the rules that the generator needs in all namespaces of the core cluster, apart from the kinds that policies name.
// The tests run with these and nothing more, and the chart must grant the same.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "replicasets"}, Verbs: sourceVerbs()},
		{APIGroups: []string{""}, Resources: []string{"replicationcontrollers"}, Verbs: sourceVerbs()},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"protectionpolicies", "clusterprotectionpolicies"}, Verbs: sourceVerbs()},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"protectionpolicies/status", "clusterprotectionpolicies/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "get", "patch"}},
	}
}

func sourceVerbs() []string { return []string{"get", "list", "watch", "patch"} }

// KindRules returns the rules that the generator needs for a kind that policies name. The user who lets policies name it grants them.
func KindRules(resource schema.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: sourceVerbs()},
		{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource + "/scale"}, Verbs: []string{"get"}},
	}
}
