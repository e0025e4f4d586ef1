package webhook

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CoreRules are what the webhook needs in all namespaces of a core cluster, besides Secrets of the namespaces that Cells
// name. The chart grants the same, and no more.
func CoreRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "get", "patch"}},
	}
}

// CellRules are what it needs in the cluster of a cell. What is of the nudger it can do without: see docs/living.md. Nodes tell in which
// domains of spec.spread pods are.
func CellRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	}
	return append(rules, OwnerRules(
		schema.GroupResource{Group: "apps", Resource: "daemonsets"}, schema.GroupResource{Group: "apps", Resource: "replicasets"},
		schema.GroupResource{Group: "apps", Resource: "statefulsets"}, schema.GroupResource{Group: "batch", Resource: "jobs"},
		schema.GroupResource{Resource: "replicationcontrollers"},
	)...)
}

// OwnerRules are what the nudger needs for kinds that own pods.
func OwnerRules(resources ...schema.GroupResource) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range resources {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get", "patch"}})
	}
	return rules
}
