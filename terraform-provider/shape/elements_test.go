package shape_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// The group and resource identify the resources of a ring. Each resource, and each resource that it controls, has its own owners.
func TestShowKeyedListShowsSetOrOwnedElements(t *testing.T) {
	const (
		ownsPods = `{f:resources: {'k:{"group":"","resource":"pods"}': {".": {}, f:group: {}, f:resource: {}}}}`
		pods     = `{group: "", resource: pods}`
		jobs     = `{group: batch, resource: jobs}`
	)
	for claim, test := range map[string]struct{ before, live, owned, want string }{
		"elements of other managers are not shown": {
			`[` + pods + `, ` + jobs + `]`, `[{group: "", resource: a}, ` + pods + `, {group: apps, resource: pods}, ` + jobs + `, {group: batch, resource: pods}]`, `{}`,
			`[` + pods + `, ` + jobs + `]`,
		},
		"the order of the cluster is ignored":                  {`[` + pods + `, ` + jobs + `]`, `[` + jobs + `, ` + pods + `]`, `{}`, `[` + pods + `, ` + jobs + `]`},
		"an element that another manager removed is not shown": {`[` + pods + `, ` + jobs + `]`, `[` + jobs + `]`, `{}`, `[` + jobs + `]`},
		"what is owned is shown":                               {`null`, `[` + jobs + `, ` + pods + `]`, ownsPods, `[` + pods + `]`},
		"what is owned is behind what was set":                 {`[` + jobs + `]`, `[` + pods + `, ` + jobs + `]`, ownsPods, `[` + jobs + `, ` + pods + `]`},
		"without a group it is the core's":                     {`[{resource: pods}]`, `[` + jobs + `, ` + pods + `]`, `{}`, `[` + pods + `]`},
		"an empty list stays one":                              {`[]`, `[` + pods + `]`, `{}`, `[]`},
		"an unset list stays null":                             {`null`, `[` + pods + `]`, `{}`, `null`},
		"null stays null":                                      {`[` + pods + `]`, `null`, `{}`, `null`},
		"what others let it control is theirs": {
			`[` + pods + `]`, `[{group: "", resource: pods, controlledResources: [` + jobs + `]}]`, ownsPods, `[` + pods + `]`,
		},
		"beside what was set, too": {
			`[{group: "", resource: pods, controlledResources: [` + jobs + `]}]`,
			`[{group: "", resource: pods, controlledResources: [{group: "", resource: a}, ` + jobs + `]}]`, `{}`,
			`[{group: "", resource: pods, controlledResources: [` + jobs + `]}]`,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			owned := &fieldpath.Set{}
			if raw, err := yaml.YAMLToJSON([]byte(test.owned)); err != nil {
				t.Fatal(err)
			} else if err := owned.FromJSON(bytes.NewReader(raw)); err != nil {
				t.Fatal(err)
			}
			got := definition(t, "ClusterRing").Spec.Show(spec(t, test.before), spec(t, test.live), owned)
			if diff := cmp.Diff(spec(t, test.want), got); diff != "" {
				t.Errorf("Show() (-want +got):\n%s", diff)
			}
		})
	}
}

// spec returns a spec with these resources, or an empty one if they are null.
func spec(t *testing.T, resources string) any {
	t.Helper()
	read := map[string]any{}
	if err := yaml.Unmarshal([]byte(`{resources: `+resources+`}`), &read); err != nil {
		t.Fatal(err)
	}
	if read["resources"] == nil {
		return map[string]any{}
	}
	return read
}
