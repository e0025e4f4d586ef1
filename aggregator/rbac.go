package aggregator

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CoreRules are what an aggregator needs in all namespaces of its core cluster; with --all-cells besides Secrets of the
// namespaces that Cells name. The chart grants the same, and no more.
func CoreRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells/status", "podprotectors/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// LeaseRules are what it needs in the namespace of its Lease.
func LeaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
	}
}

// CellRules are what it needs in the cluster of a cell. Without what is of nodes, which are watched while a protector asks for a
// label of them, it does not know in which domains pods are, and tells so.
func CellRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
	}
	for _, r := range []schema.GroupResource{
		{Group: "apps", Resource: "daemonsets"}, {Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "replicasets"},
		{Group: "apps", Resource: "statefulsets"}, {Group: "batch", Resource: "cronjobs"}, {Group: "batch", Resource: "jobs"},
		{Resource: "replicationcontrollers"},
	} {
		rules = append(rules, WorkloadRules(r)...)
	}
	return rules
}

// WorkloadRules are what it needs for a kind of workloads from which floors are reckoned, and for kinds that own pods of those.
func WorkloadRules(r schema.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{r.Group}, Resources: []string{r.Resource + "/scale"}, Verbs: []string{"get"}},
	}
}

// TriggerRules are what it needs in the namespace of its update trigger.
func TriggerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	}
}

// RingRules are what a shard of a ring needs besides in all of its core cluster; in the ring's shardNamespace members.ShardRules.
func RingRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings"}, Verbs: []string{"get", "list", "watch"}},
	}
}
