package certificates

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterRules are what the controller needs for configurations of these names, of either kind. Anybody may know which there are;
// it changes no others. The tests run with these, with Rules, and nothing more.
func ClusterRules(validating, mutating []string) (rules []rbacv1.PolicyRule) {
	group := []string{"admissionregistration.k8s.io"}
	grant := func(resource string, names []string) {
		if len(names) == 0 {
			return // a rule without names would be of all
		}
		rules = append(rules, rbacv1.PolicyRule{APIGroups: group, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}},
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"patch"}})
	}
	grant("validatingwebhookconfigurations", validating)
	grant("mutatingwebhookconfigurations", mutating)
	return rules
}

// Rules are what it needs in the namespace of the Secrets, where both exist, besides those of elections. The chart makes them,
// empty, and grants these.
func Rules(secret string) []rbacv1.PolicyRule {
	names := []string{secret, authoritySecret(client.ObjectKey{Name: secret}).Name}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get", "update"}},
	}
}

// MakingRules are what it needs besides where nobody else makes them. By these one can make tokens of other accounts.
func MakingRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}}
}

// CallerRules are what it needs of the Secret of caller keys, which exists.
func CallerRules(secret string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "update"}}}
}
