package findings_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// Each permission that Needed returns is among the rules that the chart grants.
func TestComponentPermissionsAreGranted(t *testing.T) {
	for component, rules := range map[string]struct{ core, cell []rbacv1.PolicyRule }{
		"webhook":    {roles.Rules(t, "webhook.core"), roles.Rules(t, "webhook.cell")},
		"aggregator": {roles.Rules(t, "aggregator.core"), roles.Rules(t, "aggregator.cell")},
		"generator":  {roles.Rules(t, "generator"), nil},
		"topology":   {roles.Rules(t, "topology.core"), roles.Rules(t, "topology.cell")},
	} {
		for inCore, granted := range map[bool][]rbacv1.PolicyRule{true: rules.core, false: rules.cell} {
			needed := findings.ComponentPermissions(component, inCore)
			if inCore && len(needed) == 0 {
				t.Errorf("ComponentPermissions(%s, true) is empty", component)
			}
			for _, right := range needed {
				if !slices.ContainsFunc(granted, func(rule rbacv1.PolicyRule) bool {
					return slices.Contains(rule.APIGroups, right.Group) && slices.Contains(rule.Resources, right.Resource) && slices.Contains(rule.Verbs, right.Verb) && len(rule.ResourceNames) == 0
				}) {
					t.Errorf("rules of component %s, in a core %v, do not grant %s %s of group %q", component, inCore, right.Verb, right.Resource, right.Group)
				}
			}
		}
	}
}
