package roles_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
)

func TestRulesFollowValues(t *testing.T) {
	find := func(rules []rbacv1.PolicyRule, resource string) *rbacv1.PolicyRule {
		at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
		if at < 0 {
			return nil
		}
		return &rules[at]
	}
	if rule := find(roles.Rules(t, "generator"), "clonesets"); rule != nil {
		t.Errorf("got %+v without source kinds, want no rule", rule)
	}
	kinds := roles.Kinds("generator.sourceKinds", schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"})
	want := &rbacv1.PolicyRule{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"clonesets"}, Verbs: []string{"get", "list", "watch", "patch"}}
	if diff := cmp.Diff(want, find(roles.Rules(t, "generator", kinds), "clonesets")); diff != "" {
		t.Errorf("rule of a source kind (-want +got):\n%s", diff)
	}
	inCluster, local := roles.CertificateRules(t, []string{"a"}, nil, "tls", "keys")
	if rule := find(inCluster, "mutatingwebhookconfigurations"); rule != nil {
		t.Errorf("got %+v without configurations, want no rule", rule)
	}
	var secrets []string
	for _, rule := range local {
		secrets = append(secrets, rule.ResourceNames...)
	}
	if want := []string{"keys", "tls", "tls", "tls-ca"}; !slices.Equal(secrets, want) {
		t.Errorf("Secrets of certificates: got %q, want %q", secrets, want)
	}
	if rule := find(roles.RenewalRules(t, "cell-a"), "secrets"); rule == nil || !slices.Equal(rule.ResourceNames, []string{"cell-a"}) {
		t.Errorf("got rule %+v, want one for the Secret cell-a", rule)
	}
}
