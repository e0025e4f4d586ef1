package console

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRules are the permissions of the console in the core cluster: to watch what it shows, and to review the tokens and the
// permissions of its visitors. The chart grants exactly these.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}
