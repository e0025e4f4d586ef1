package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/controllers/certificates"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/inventory"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/controllers/topology"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/console"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/share"
	"github.com/breakwater-k8s/breakwater/webhook"
	"github.com/breakwater-k8s/breakwater/webhook/rootguard"
	"github.com/breakwater-k8s/breakwater/webhook/scheduling"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

// sharderRules returns the cluster-wide permissions of the sharder in addition to those of its webhook.
func sharderRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"clusterrings/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// shardNamespaceRules returns the sharder's permissions in shard namespaces: to read, update and delete Leases.
func shardNamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "update", "delete"},
	}}
}

// helmTestRules returns the permissions of helm test.
func helmTestRules(checker check.Checker) []rbacv1.PolicyRule { return checker.Rules() }

// permissions returns each permission of some rules as a string. A permission on all objects of a resource covers named ones.
func permissions(all ...[]rbacv1.PolicyRule) []string {
	found := map[string]bool{}
	for _, rule := range slices.Concat(all...) {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						found[strings.Join([]string{verb, group, resource, name}, " ")] = true
					}
				}
			}
		}
	}
	maps.DeleteFunc(found, func(right string, _ bool) bool {
		prefix := right[:strings.LastIndex(right, " ")+1]
		return !strings.HasSuffix(right, " *") && found[prefix+"*"]
	})
	return slices.Sorted(maps.Keys(found))
}

// grantedPermissions returns the permissions of the ClusterRole or Role with that name.
func grantedPermissions(t *testing.T, objects []*unstructured.Unstructured, kind, name string) []string {
	t.Helper()
	for _, role := range objectsOfKind[rbacv1.ClusterRole](t, objects, kind) {
		if role.Name == name {
			return permissions(role.Rules)
		}
	}
	return nil
}

func TestAccountsMayDoWhatComponentsNeedAndNoMore(t *testing.T) {
	kruise := schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"}
	applications := schema.GroupResource{Group: "example.com", Resource: "applications"}
	owners := []schema.GroupResource{{Group: "argoproj.io", Resource: "rollouts"}, {Resource: "configmaps"}}
	for _, c := range []struct {
		set, kind, name string
		want            [][]rbacv1.PolicyRule
	}{
		{"sharder", "ClusterRole", "breakwater-sharder", [][]rbacv1.PolicyRule{sharding.ClusterRules(), sharderRules()}},
		{"sharder", "ClusterRole", "breakwater-sharder-resources", nil},
		{"sharder", "Role", "breakwater-sharder", [][]rbacv1.PolicyRule{clusters.ElectionRules()}},
		{"sharder", "Role", "breakwater-sharder-shards", [][]rbacv1.PolicyRule{shardNamespaceRules()}},
		{"sharder", "ClusterRole", "breakwater-webhook", nil},
		{"single", "ClusterRole", "breakwater-sharder", nil},
		{"console", "ClusterRole", "breakwater-console", [][]rbacv1.PolicyRule{console.ClusterRules()}},
		{"console", "Role", "breakwater-console", nil},
		{"console", "ClusterRole", "breakwater-certificates", nil},
		{"console", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.Rules("breakwater-console-tls"), clusters.ElectionRules()}},
		{"everything", "ClusterRole", "breakwater-console", [][]rbacv1.PolicyRule{console.ClusterRules()}},
		{"single", "ClusterRole", "breakwater-console", nil},
		{"sharded", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{generator.ClusterRules(), keeper.ClusterRules(), share.ClusterRules()}},
		{"sharded", "Role", "breakwater-generator", [][]rbacv1.PolicyRule{members.ShardRules(), brake.Rules()}},
		{"sharded", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CoreRules(), aggregator.CellRules(), aggregator.RingRules()}},
		{"sharded", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.LeaseRules(), members.ShardRules()}},
		{"single", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{generator.ClusterRules(), keeper.ClusterRules()}},
		{"single", "Role", "breakwater-generator", [][]rbacv1.PolicyRule{clusters.ElectionRules(), brake.Rules()}},
		{"single", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{topology.ClusterRules(), topology.CellRules()}},
		{"single", "Role", "breakwater-topology", [][]rbacv1.PolicyRule{clusters.ElectionRules()}},
		{"single", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CoreRules(), aggregator.CellRules()}},
		{"single", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.LeaseRules()}},
		{"single", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CoreRules(), webhook.CellRules()}},
		{"single", "Role", "breakwater-webhook", nil},
		{"self-signed", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.ClusterRules([]string{"breakwater-core", "breakwater-cell-local", "breakwater-roots"}, nil)}},
		{"self-signed", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.Rules("breakwater-webhook-tls"), certificates.Rules("breakwater-sharder-tls"), clusters.ElectionRules()}},
		{"single", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true, Configurations: []string{"breakwater-core", "breakwater-cell-local", "breakwater-roots"}})}},
		{"sharder", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true, Rings: true})}},
		{"core", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true})}}, // no webhook runs there
		{"worker", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Configurations: []string{"breakwater-cell-worker-1", "breakwater-roots"}})}},
		{"core", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{topology.ClusterRules()}},
		{"core", "Role", "breakwater-token-renewal", [][]rbacv1.PolicyRule{clusters.RenewalRules("cell-worker-1")}},
		{"inventory", "Role", "breakwater-token-renewal", nil},
		{"single", "Role", "breakwater-token-renewal", nil},
		{"worker", "Role", "breakwater-webhook", [][]rbacv1.PolicyRule{clusters.RenewalRules("core-europe")}},
		{"inventory", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{topology.ClusterRules(), inventory.ClusterRules()}},
		{"inventory", "Role", "breakwater-inventory-secrets", [][]rbacv1.PolicyRule{inventory.SecretRules()}},
		{"inventory", "Role", "breakwater-inventory-argocd", [][]rbacv1.PolicyRule{inventory.ArgoCDRules()}},
		{"inventory", "Role", "breakwater-inventory-cluster-profiles", [][]rbacv1.PolicyRule{inventory.ClusterProfileRules()}},
		{"inventory", "Role", "breakwater-cell-kubeconfigs", [][]rbacv1.PolicyRule{topology.SecretRules()}},
		{"core", "Role", "breakwater-inventory-secrets", nil},
		{"core", "Role", "breakwater-inventory-argocd", nil},
		{"core", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CoreRules()}},
		{"core", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{webhook.CoreRules()}},
		{"core", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{webhook.CoreRules()}},
		{"core", "Role", "breakwater-access-cell", nil},
		{"identities", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{webhook.CoreRules(), aggregator.CoreRules()}},
		{"identities", "Role", "breakwater-access-cell", [][]rbacv1.PolicyRule{aggregator.LeaseRules()}},
		{"identities", "ClusterRole", "breakwater-access", nil}, // it has no cell and no shared account
		{"worker", "ClusterRole", "breakwater-access-cell", nil},
		{"core", "ClusterRole", "breakwater-webhook", nil},
		{"core-webhook", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CoreRules(), rootguard.ClusterRules()}},
		{"worker", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CellRules()}},
		{"worker", "ClusterRole", "breakwater-aggregator", nil},
		{"worker", "ClusterRole", "breakwater-generator", nil},
		{"worker", "ClusterRole", "breakwater-topology", nil},
		{"worker", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{topology.CellRules(), aggregator.CellRules()}},
		{"worker-aggregator", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CellRules()}},
		{"worker-aggregator", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.TriggerRules()}},
		{"worker-aggregator", "ClusterRole", "breakwater-shares", nil},
		{"shares", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CellRules(), aggregator.ShareRules()}},
		{"shares", "ClusterRole", "breakwater-shares", [][]rbacv1.PolicyRule{aggregator.CoreRules(), aggregator.CellRules()}},
		{"shares", "Role", "breakwater-shares", [][]rbacv1.PolicyRule{aggregator.LeaseRules()}},
		{"shares", "Role", "breakwater-aggregator", nil},
		{"shares", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CoreRules(), webhook.CellRules()}},
		{"worker-remote-webhook", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{topology.CellRules(), aggregator.CellRules(), webhook.CellRules(), webhook.NodeGuardRules()}},
		{"everything", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{generator.ClusterRules(), keeper.ClusterRules(), generator.KindRules(kruise), brake.OwnerRules(applications)}},
		{"everything", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.CoreRules(), aggregator.CellRules(), aggregator.WorkloadRules(kruise)}},
		{"everything", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CoreRules(), webhook.CellRules(), webhook.NodeGuardRules(), webhook.OwnerRules(kruise), scheduling.CoreRules(), scheduling.CellRules(), rootguard.ClusterRules(), rootguard.OwnerRules(owners, kruise)}},
		{"everything", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{webhook.CoreRules(), scheduling.CoreRules(), aggregator.CoreRules()}},
		{"everything", "Role", "breakwater-access", [][]rbacv1.PolicyRule{aggregator.LeaseRules(), aggregator.NodeGuardRules()}},
		{"everything", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{aggregator.LeaseRules(), aggregator.NodeGuardRules()}},
		{"worker-remote-webhook", "Role", "breakwater-access", [][]rbacv1.PolicyRule{aggregator.NodeGuardRules()}},
		{"scheduling", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CoreRules(), webhook.CellRules(), scheduling.CoreRules(), scheduling.CellRules()}},
		{"scheduling", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.ClusterRules(
			[]string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-zone-a", "breakwater-roots"}, []string{"breakwater-scheduling-shop", "breakwater-scheduling-zone-a"})}},
		{"callers", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.ClusterRules(
			[]string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-bank", "breakwater-roots"}, []string{"breakwater-scheduling-shop", "breakwater-scheduling-bank"})}},
		{"callers", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{certificates.CallerRules("breakwater-webhook-callers"), clusters.ElectionRules()}},
		{"scheduling", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{
			Core: true, Configurations: []string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-zone-a", "breakwater-roots"},
			SchedulingConfigurations: []string{"breakwater-scheduling-shop", "breakwater-scheduling-zone-a"},
		})}},
		{"scheduling", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{topology.ClusterRules(), topology.CellRules()}},
		{"scheduling-core", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{webhook.CoreRules(), scheduling.CoreRules()}},
		{"scheduling-core", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true})}},
		{"scheduling-remote", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{topology.CellRules(), aggregator.CellRules(), webhook.CellRules(), scheduling.CellRules()}},
		{"scheduling-worker", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{webhook.CellRules(), scheduling.CellRules()}},
		{"node", "ClusterRole", "breakwater-node", [][]rbacv1.PolicyRule{nodeguard.ClusterRules()}},
		{"node", "Role", "breakwater-node", [][]rbacv1.PolicyRule{nodeguard.LocalRules("breakwater-node")}},
		{"node", "ClusterRole", "breakwater-node-identity", [][]rbacv1.PolicyRule{nodeguard.KubeletRules()}},
		{"worker", "ClusterRole", "breakwater-node", nil},
		{"scheduling-worker", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{topology.CellRules(), aggregator.CellRules()}},
	} {
		t.Run(c.set+" "+c.kind+" "+c.name, func(t *testing.T) {
			objects := render(t, "--values", "breakwater/ci/"+c.set+".yaml", "--set", "fullnameOverride=breakwater")
			got, want := grantedPermissions(t, objects, c.kind, c.name), permissions(c.want...)
			for _, right := range got {
				if !slices.Contains(want, right) {
					t.Errorf("role grants %s, which the component does not need", right)
				}
			}
			for _, right := range want {
				if !slices.Contains(got, right) {
					t.Errorf("role does not grant %s, which the component needs", right)
				}
			}
		})
	}
}

// An account that can read all kubeconfigs controls all cells.
func TestKubeconfigsAreReadByName(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/core.yaml")
	got := map[string][]string{}
	for _, role := range objectsOfKind[rbacv1.Role](t, objects, "Role") {
		if strings.HasSuffix(role.Name, "-cell-kubeconfigs") {
			got[role.Namespace] = permissions(role.Rules)
		}
	}
	want := map[string][]string{namespace: {"get  secrets cell-worker-1"}, "clusters": {"get  secrets worker-2-admin"}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, set := range []string{"single", "worker", "worker-aggregator"} {
		objects := render(t, "--values", "breakwater/ci/"+set+".yaml")
		for _, role := range append(objectsOfKind[rbacv1.ClusterRole](t, objects, "ClusterRole"), objectsOfKind[rbacv1.ClusterRole](t, objects, "Role")...) {
			for _, rule := range role.Rules {
				if strings.HasSuffix(role.Name, "-webhook") && len(rule.ResourceNames) > 0 {
					continue // it renews the tokens of kubeconfigs that are mounted into its pods anyway
				}
				if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
					t.Errorf("%s: %s may read Secrets: %+v", set, role.Name, rule)
				}
			}
		}
	}
}
