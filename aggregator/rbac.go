package aggregator

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CoreRules are the permissions that an aggregator needs in all namespaces of its core cluster. With --all-cells it also needs
// the Secrets of the namespaces that Cells name. The chart grants exactly the same. The UID of kube-system tells the shares of several cores from
// each other.
func CoreRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells/status", "podprotectors/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// LeaseRules are the permissions that it needs in the namespace of its Lease.
func LeaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
	}
}

// CellRules are the permissions that it needs in the cluster of a cell. It watches nodes while a protector uses a label of them.
// Without access to nodes it cannot determine in which domains pods are, and without access to webhook configurations and namespaces not
// which namespaces are exempt. It reports both. It emits events on workloads whose label has no effect there.
func CellRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch", "patch"}},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
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

// WorkloadRules are the permissions that it needs for a kind of workload from which floors are computed, and for kinds that own
// pods of such workloads.
func WorkloadRules(r schema.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{r.Group}, Resources: []string{r.Resource + "/scale"}, Verbs: []string{"get"}},
	}
}

// TriggerRules are the permissions that it needs in the namespace of its update trigger.
func TriggerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	}
}

// NodeGuardRules are the permissions that it needs in the namespace of Breakwater in the cluster of a cell with node guards.
func NodeGuardRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "list", "update"}}}
}

// ShareRules are the additional permissions that an aggregator with shares needs in the cluster of the cell. In the core it also needs to get
// events, as the webhook does. An aggregator that counts for shares needs CoreRules and LeaseRules there.
func ShareRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells"}, Verbs: []string{"get", "list", "watch", "create", "update"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells/status", "podprotectors/status"}, Verbs: []string{"update"}},
	}
}

// RingRules are the additional permissions that a shard of a ring needs in the whole core cluster. In the ring's shardNamespace
// it needs members.ShardRules.
func RingRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings"}, Verbs: []string{"get", "list", "watch"}},
	}
}
