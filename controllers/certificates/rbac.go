package certificates

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterRules returns the rules that the controller needs for configurations of these names, of either kind. It may read all
// configurations, and change only these. The tests run with these rules, with Rules, and nothing more.
func ClusterRules(validating, mutating []string) (rules []rbacv1.PolicyRule) {
	group := []string{"admissionregistration.k8s.io"}
	grant := func(resource string, names []string) {
		if len(names) == 0 {
			return // a rule without names would apply to all
		}
		rules = append(rules, rbacv1.PolicyRule{APIGroups: group, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}},
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"patch"}})
	}
	grant("validatingwebhookconfigurations", validating)
	grant("mutatingwebhookconfigurations", mutating)
	return rules
}

// Rules returns the rules that the controller needs in the namespace of the Secrets, where both exist, besides those for leader election.
// The chart creates the Secrets empty, and grants these rules.
func Rules(secret string) []rbacv1.PolicyRule {
	names := []string{secret, authoritySecret(client.ObjectKey{Name: secret}).Name}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get", "update"}},
	}
}

// CreationRules returns the additional rules where no other component creates the Secrets. With them, the controller could also create tokens
// of other ServiceAccounts.
func CreationRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}}
}

// CallerRules returns the rules that the controller needs for the Secret of caller keys, which must exist.
func CallerRules(secret string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "update"}}}
}
