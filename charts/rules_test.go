package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

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
	scheduling := roles.Value("webhook.scheduling.enabled", true)
	rules := func(name string, options ...roles.Option) []rbacv1.PolicyRule {
		return roles.Rules(t, name, options...)
	}
	trusts := func(validating, mutating []string) []rbacv1.PolicyRule {
		inCluster, _ := roles.CertificateRules(t, validating, mutating, "", "")
		return inCluster
	}
	local := func(serving, callers string) []rbacv1.PolicyRule {
		_, inNamespace := roles.CertificateRules(t, nil, nil, serving, callers)
		return inNamespace
	}
	for _, c := range []struct {
		set, kind, name string
		want            [][]rbacv1.PolicyRule
	}{
		{"sharder", "ClusterRole", "breakwater-sharder", [][]rbacv1.PolicyRule{rules("sharder.cluster")}},
		{"sharder", "ClusterRole", "breakwater-sharder-resources", nil},
		{"sharder", "Role", "breakwater-sharder", [][]rbacv1.PolicyRule{rules("election")}},
		{"sharder", "Role", "breakwater-sharder-shards", [][]rbacv1.PolicyRule{rules("sharder.shards")}},
		{"sharder", "ClusterRole", "breakwater-webhook", nil},
		{"single", "ClusterRole", "breakwater-sharder", nil},
		{"console", "ClusterRole", "breakwater-console", [][]rbacv1.PolicyRule{rules("console")}},
		{"console", "Role", "breakwater-console", nil},
		{"console", "ClusterRole", "breakwater-certificates", nil},
		{"console", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{local("breakwater-console-tls", "")}},
		{"everything", "ClusterRole", "breakwater-console", [][]rbacv1.PolicyRule{rules("console")}},
		{"single", "ClusterRole", "breakwater-console", nil},
		{"sharded", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{rules("generator"), rules("share")}},
		{"sharded", "Role", "breakwater-generator", [][]rbacv1.PolicyRule{rules("shard"), rules("grants")}},
		{"sharded", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.core"), rules("aggregator.cell"), rules("ring")}},
		{"sharded", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("leases"), rules("shard")}},
		{"single", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{rules("generator")}},
		{"single", "Role", "breakwater-generator", [][]rbacv1.PolicyRule{rules("election"), rules("grants")}},
		{"single", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{rules("topology.core"), rules("topology.cell")}},
		{"single", "Role", "breakwater-topology", [][]rbacv1.PolicyRule{rules("election")}},
		{"single", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.core"), rules("aggregator.cell")}},
		{"single", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("leases")}},
		{"single", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.core"), rules("webhook.cell")}},
		{"single", "Role", "breakwater-webhook", nil},
		{"self-signed", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{trusts([]string{"breakwater-core", "breakwater-cell-local", "breakwater-roots"}, nil)}},
		{"self-signed", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{local("breakwater-webhook-tls", ""), local("breakwater-sharder-tls", "")}},
		{"single", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true, Configurations: []string{"breakwater-core", "breakwater-cell-local", "breakwater-roots"}})}},
		{"sharder", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true, Rings: true})}},
		{"core", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true})}}, // no webhook runs there
		{"worker", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Configurations: []string{"breakwater-cell-worker-1", "breakwater-roots"}})}},
		{"core", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{rules("topology.core")}},
		{"core", "Role", "breakwater-token-renewal", [][]rbacv1.PolicyRule{roles.RenewalRules(t, "cell-worker-1")}},
		{"inventory", "Role", "breakwater-token-renewal", nil},
		{"single", "Role", "breakwater-token-renewal", nil},
		{"worker", "Role", "breakwater-webhook", [][]rbacv1.PolicyRule{roles.RenewalRules(t, "core-europe")}},
		{"inventory", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{rules("topology.core"), rules("inventory.core")}},
		{"inventory", "Role", "breakwater-inventory-secrets", [][]rbacv1.PolicyRule{rules("inventory.secrets")}},
		{"inventory", "Role", "breakwater-inventory-argocd", [][]rbacv1.PolicyRule{rules("inventory.argocd")}},
		{"inventory", "Role", "breakwater-inventory-cluster-profiles", [][]rbacv1.PolicyRule{rules("inventory.clusterProfiles")}},
		{"inventory", "Role", "breakwater-cell-kubeconfigs", [][]rbacv1.PolicyRule{{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}},
		{"core", "Role", "breakwater-inventory-secrets", nil},
		{"core", "Role", "breakwater-inventory-argocd", nil},
		{"core", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.core")}},
		{"core", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("webhook.core")}},
		{"core", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{rules("webhook.core")}},
		{"core", "Role", "breakwater-access-cell", nil},
		{"identities", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{rules("webhook.core"), rules("aggregator.core")}},
		{"identities", "Role", "breakwater-access-cell", [][]rbacv1.PolicyRule{rules("leases")}},
		{"identities", "ClusterRole", "breakwater-access", nil}, // it has no cell and no shared account
		{"worker", "ClusterRole", "breakwater-access-cell", nil},
		{"core", "ClusterRole", "breakwater-webhook", nil},
		{"core-webhook", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.core"), rules("webhook.roots")}},
		{"worker", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.cell")}},
		{"worker", "ClusterRole", "breakwater-aggregator", nil},
		{"worker", "ClusterRole", "breakwater-generator", nil},
		{"worker", "ClusterRole", "breakwater-topology", nil},
		{"worker", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("topology.cell"), rules("aggregator.cell")}},
		{"worker-aggregator", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.cell")}},
		{"worker-aggregator", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("trigger")}},
		{"worker-aggregator", "ClusterRole", "breakwater-shares", nil},
		{"shares", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.cell"), rules("aggregator.shares")}},
		{"shares", "ClusterRole", "breakwater-shares", [][]rbacv1.PolicyRule{rules("aggregator.core"), rules("aggregator.cell")}},
		{"shares", "Role", "breakwater-shares", [][]rbacv1.PolicyRule{rules("leases")}},
		{"shares", "Role", "breakwater-aggregator", nil},
		{"shares", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.core"), rules("webhook.cell")}},
		{"worker-remote-webhook", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("topology.cell"), rules("aggregator.cell"), rules("webhook.cell")}},
		{"everything", "ClusterRole", "breakwater-generator", [][]rbacv1.PolicyRule{rules("generator", roles.Kinds("generator.sourceKinds", kruise), roles.Kinds("generator.ownerKinds", applications))}},
		{"everything", "ClusterRole", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("aggregator.core"), rules("aggregator.cell", roles.Kinds("aggregator.workloadKinds", kruise))}},
		{"everything", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.core", scheduling), rules("webhook.cell", scheduling, roles.Kinds("webhook.ownerKinds", kruise)),
			rules("webhook.roots", roles.Kinds("rootGuard.ownerKinds", owners...), roles.Kinds("generator.sourceKinds", kruise))}},
		{"everything", "ClusterRole", "breakwater-access-cell", [][]rbacv1.PolicyRule{rules("webhook.core", scheduling), rules("aggregator.core")}},
		{"everything", "Role", "breakwater-access", [][]rbacv1.PolicyRule{rules("leases"), rules("guards")}},
		{"everything", "Role", "breakwater-aggregator", [][]rbacv1.PolicyRule{rules("leases"), rules("guards")}},
		{"worker-remote-webhook", "Role", "breakwater-access", [][]rbacv1.PolicyRule{rules("guards")}},
		{"scheduling", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.core", scheduling), rules("webhook.cell", scheduling)}},
		{"scheduling", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{trusts(
			[]string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-zone-a", "breakwater-roots"}, []string{"breakwater-scheduling-shop", "breakwater-scheduling-zone-a"})}},
		{"callers", "ClusterRole", "breakwater-certificates", [][]rbacv1.PolicyRule{trusts(
			[]string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-bank", "breakwater-roots"}, []string{"breakwater-scheduling-shop", "breakwater-scheduling-bank"})}},
		{"callers", "Role", "breakwater-certificates", [][]rbacv1.PolicyRule{local("", "breakwater-webhook-callers")}},
		{"scheduling", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{
			Core: true, Configurations: []string{"breakwater-core", "breakwater-cell-shop", "breakwater-cell-zone-a", "breakwater-roots"},
			SchedulingConfigurations: []string{"breakwater-scheduling-shop", "breakwater-scheduling-zone-a"},
		})}},
		{"scheduling", "ClusterRole", "breakwater-topology", [][]rbacv1.PolicyRule{rules("topology.core"), rules("topology.cell")}},
		{"scheduling-core", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("webhook.core", scheduling)}},
		{"scheduling-core", "ClusterRole", "breakwater-test", [][]rbacv1.PolicyRule{helmTestRules(check.Checker{Core: true})}},
		{"scheduling-remote", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("topology.cell"), rules("aggregator.cell"), rules("webhook.cell", scheduling)}},
		{"scheduling-worker", "ClusterRole", "breakwater-webhook", [][]rbacv1.PolicyRule{rules("webhook.cell", scheduling)}},
		{"node", "ClusterRole", "breakwater-node", [][]rbacv1.PolicyRule{rules("node")}},
		{"node", "Role", "breakwater-node", [][]rbacv1.PolicyRule{rules("node.local")}},
		{"node", "ClusterRole", "breakwater-node-identity", [][]rbacv1.PolicyRule{{{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}}}},
		{"worker", "ClusterRole", "breakwater-node", nil},
		{"scheduling-worker", "ClusterRole", "breakwater-access", [][]rbacv1.PolicyRule{rules("topology.cell"), rules("aggregator.cell")}},
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
