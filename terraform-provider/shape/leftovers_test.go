package shape_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestLeftovers(t *testing.T) {
	for claim, test := range map[string]struct {
		kind, had, wants, live string
		want                   []string
	}{
		"a field":                    {"PodProtector", `{minReadySeconds: 5, expectedReplicas: 1}`, `{}`, `{minReadySeconds: 5}`, []string{"min_ready_seconds"}},
		"what is wanted":             {"PodProtector", `{minReadySeconds: 5}`, `{minReadySeconds: 6}`, `{minReadySeconds: 6}`, nil},
		"what others set alone":      {"PodProtector", `{}`, `{}`, `{minReadySeconds: 5}`, nil},
		"what an apiserver fills in": {"PodProtector", `{criterion: Ready}`, `{}`, `{criterion: Available}`, nil},
		"a field of a field":         {"ClusterProtectionPolicy", `{floor: {minAvailable: 1, maxUnavailable: 2}}`, `{floor: {minAvailable: 1}}`, `{floor: {minAvailable: 1, maxUnavailable: 2}}`, []string{"floor.max_unavailable"}},
		"the whole of a value":       {"PodProtector", `{selector: {matchLabels: {a: b}}}`, `{selector: {}}`, `{selector: {matchLabels: {a: b}}}`, nil},
		"an element of a set":        {"PodProtector", `{operations: [Delete, Evict]}`, `{operations: [Delete]}`, `{operations: [Delete, Evict, Update]}`, []string{`operations["Evict"]`}},
		"an element with keys": {"ClusterRing", `{resources: [{group: "", resource: pods}, {group: apps, resource: jobs}]}`, `{resources: []}`, `{resources: [{group: apps, resource: jobs}]}`,
			[]string{`resources[group = "apps", resource = "jobs"]`}},
		"an element of a controlled resource": {"ClusterRing", `{resources: [{group: "", resource: a, controlledResources: [{group: "", resource: b}]}]}`, `{resources: [{group: "", resource: a}]}`,
			`{resources: [{group: "", resource: a, controlledResources: [{group: "", resource: b}]}]}`,
			[]string{`resources[group = "", resource = "a"].controlled_resources[group = "", resource = "b"]`}},
		"all elements":           {"ClusterRing", `{resources: [{group: "", resource: a}]}`, `{}`, `{resources: [{group: "", resource: a}]}`, []string{`resources[group = "", resource = "a"]`}},
		"the elements of others": {"ClusterRing", `{resources: [{group: "", resource: a}]}`, `{}`, `{resources: [{group: "", resource: b}]}`, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			read := func(text string) any {
				object := map[string]any{}
				if err := yaml.Unmarshal([]byte(text), &object); err != nil {
					t.Fatal(err)
				}
				return object
			}
			got := definition(t, test.kind).Spec.Leftovers(read(test.had), read(test.wants), read(test.live))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("- what should be named, + what is\n%s", diff)
			}
		})
	}
}
