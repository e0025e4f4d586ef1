package webhook

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CoreRules returns the permissions that the webhook needs in all namespaces of a core cluster, in addition to Secrets
// of the namespaces that Cells name. The chart grants the same permissions, and no more.
func CoreRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "get", "patch"}},
	}
}

// CellRules returns the permissions that the webhook needs in the cluster of a cell. Those of the retrier are optional:
// see docs/how-to/clients.md. Nodes determine the domains of spec.spread that pods are in. RBAC cannot restrict the patch of pods to owner
// references; a ValidatingAdmissionPolicy of the chart does.
func CellRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	}
	return append(rules, ownerRules(
		schema.GroupResource{Group: "apps", Resource: "daemonsets"}, schema.GroupResource{Group: "apps", Resource: "replicasets"},
		schema.GroupResource{Group: "apps", Resource: "statefulsets"}, schema.GroupResource{Group: "batch", Resource: "jobs"},
		schema.GroupResource{Resource: "replicationcontrollers"},
	)...)
}

// NodeGuardRules returns the permissions that the webhook needs in the cluster of a cell with node guards.
func NodeGuardRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}}
}

// OwnerRules returns the permissions that the retrier needs for kinds of other API groups that own pods. Their scale may state the selector of
// their pods.
func OwnerRules(resources ...schema.GroupResource) []rbacv1.PolicyRule {
	rules := ownerRules(resources...)
	for _, r := range resources {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource + "/scale"}, Verbs: []string{"get"}})
	}
	return rules
}

func ownerRules(resources ...schema.GroupResource) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range resources {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get", "patch"}})
	}
	return rules
}
