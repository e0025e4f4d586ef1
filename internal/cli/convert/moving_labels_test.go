package convert

import (
	"slices"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestMovingLabels(t *testing.T) {
	for claim, c := range map[string]struct {
		key    string
		values []string
		want   bool
	}{
		"Zalando's operator":                    {"spilo-role", []string{"master"}, true},
		"CloudNativePG":                         {"cnpg.io/instanceRole", []string{"primary"}, true},
		"CloudNativePG, its old label":          {"role", []string{"primary"}, true},
		"Crunchy's operator":                    {"postgres-operator.crunchydata.com/role", []string{"master"}, true},
		"StackGres, Patroni's default":          {"role", []string{"replica"}, true},
		"Percona's operator for MySQL":          {"mysql.percona.com/primary", []string{"true"}, true},
		"Oracle's operator for MySQL":           {"mysql.oracle.com/cluster-role", []string{"PRIMARY"}, true},
		"redis-operator":                        {"redisfailovers-role", []string{"master"}, true},
		"Kubegres":                              {"replicationRole", []string{"primary"}, true},
		"Vault":                                 {"vault-active", []string{"true"}, true},
		"a flag of a standby":                   {"example.com/is-active", []string{"false"}, true},
		"a flag of something else":              {"example.com/monitored", []string{"true"}, false},
		"an own label for the leader":           {"example.com/leader", []string{"true"}, true},
		"Argo Rollouts, its hash":               {"rollouts-pod-template-hash", []string{"6d4cf56db6"}, true},
		"Argo Rollouts, canaryMetadata":         {"track", []string{"canary"}, true},
		"Argo Rollouts, activeMetadata":         {"role", []string{"active"}, true},
		"a color":                               {"color", []string{"blue"}, true},
		"a color under a prefix":                {"shop.example.com/color", []string{"green"}, true},
		"one of several values":                 {"state", []string{"other", "standby-leader"}, true},
		"a role that exists":                    {"role", nil, true},
		"another role":                          {"role", []string{"frontend"}, false},
		"a component called primary":            {"app.kubernetes.io/component", []string{"primary"}, false},
		"an application called leader":          {"app", []string{"leader"}, false},
		"a ReplicaSet's hash":                   {"pod-template-hash", []string{"6d4cf56db6"}, false},
		"a pod of a StatefulSet":                {"statefulset.kubernetes.io/pod-name", []string{"web-0"}, false},
		"a label that exists":                   {"team", nil, false},
		"a team called green":                   {"team", []string{"green"}, false},
		"a cluster":                             {"cnpg.io/cluster", []string{"orders"}, false},
		"a key that only contains a moving one": {"webmaster", []string{"x"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			expression := v1alpha1.PodSelectorRequirement{Key: c.key, Operator: "In", Values: c.values}
			selectors := []v1alpha1.PodSelector{{MatchExpressions: []v1alpha1.PodSelectorRequirement{expression, {Key: "cluster", Operator: "Exists"}}}}
			if len(c.values) == 1 {
				selectors = append(selectors, v1alpha1.PodSelector{MatchLabels: map[string]string{c.key: c.values[0], "cluster": "x"}})
			}
			for _, selector := range selectors {
				if got := movingLabels(&selector); slices.Contains(got, c.key) != c.want || len(got) > 1 {
					t.Errorf("movingLabels(%+v) = %v, want %s among them: %v", selector, got, c.key, c.want)
				}
			}
		})
	}
}
