package workload_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/core/workload"
)

// The claims are rows of the table in docs/concepts/overview.md (rule 16).
func TestDecide(t *testing.T) {
	scale := func(s workload.Selection) workload.Scale { return workload.Scale{Exists: true, Selection: s} }
	for claim, c := range map[string]struct {
		scale    workload.Scale
		isDirect bool
		want     workload.Verdict
	}{
		"the controller of the pods counts, if its scale selects them":            {scale(workload.SelectsAll), true, workload.Counts},
		"the controller of the pods counts, if its scale has no selector":         {scale(workload.Unstated), true, workload.Counts},
		"a scale that selects other pods counts something else":                   {scale(workload.SelectsOthers), true, workload.Ascend},
		"a controller without a scale states no number":                           {workload.Scale{}, true, workload.Ascend},
		"a controller above one without a scale counts, if it selects the pods":   {scale(workload.SelectsAll), false, workload.Counts},
		"a controller above one without a scale may count groups, if it does not": {scale(workload.SelectsOthers), false, workload.Ascend},
		"nothing shows what a scale without a selector counts":                    {scale(workload.Unstated), false, workload.Ascend},
		"an upper controller without a scale states no number":                    {workload.Scale{}, false, workload.Ascend},
	} {
		if got := workload.Decide(c.scale, c.isDirect); got != c.want {
			t.Errorf("%s: Decide() = %v, want %v", claim, got, c.want)
		}
	}
}

func TestReplacement(t *testing.T) {
	for claim, c := range map[string]struct {
		set  schema.GroupKind
		of   workload.Scale
		want bool
	}{
		"a Rollout that selects the pods replaces its ReplicaSets": {
			schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, workload.Scale{Exists: true, Selection: workload.SelectsAll}, true,
		},
		"and what selects them replaces ReplicationControllers": {
			schema.GroupKind{Kind: "ReplicationController"}, workload.Scale{Exists: true, Selection: workload.SelectsAll}, true,
		},
		"one that selects the pods of another set does not": {
			schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, workload.Scale{Exists: true, Selection: workload.SelectsOthers}, false,
		},
		"nor one without a selector": {schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, workload.Scale{Exists: true}, false},
		"nor one without a scale":    {schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, workload.Scale{}, false},
		"nothing replaces a StatefulSet: the scale of a Prometheus, which selects the pods, counts shards": {
			schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, workload.Scale{Exists: true, Selection: workload.SelectsAll}, false,
		},
		"nothing replaces a Deployment": {
			schema.GroupKind{Group: "apps", Kind: "Deployment"}, workload.Scale{Exists: true, Selection: workload.SelectsAll}, false,
		},
		"nor a ReplicaSet of another group": {
			schema.GroupKind{Group: "example.com", Kind: "ReplicaSet"}, workload.Scale{Exists: true, Selection: workload.SelectsAll}, false,
		},
	} {
		if got := workload.IsReplaceable(c.set) && workload.Replaces(c.of); got != c.want {
			t.Errorf("%s: got %v, want %v", claim, got, c.want)
		}
	}
}

func TestSelectionOf(t *testing.T) {
	leader, worker := map[string]string{"lws": "llm", "worker-index": "0"}, map[string]string{"lws": "llm", "worker-index": "1"}
	for claim, c := range map[string]struct {
		selector string
		pods     []map[string]string
		want     workload.Selection
		fails    bool
	}{
		"all of the pods":              {"lws=llm", []map[string]string{leader, worker}, workload.SelectsAll, false},
		"some of the pods":             {"lws=llm,worker-index=0", []map[string]string{leader, worker}, workload.SelectsOthers, false},
		"none of the pods":             {"app=web", []map[string]string{leader}, workload.SelectsOthers, false},
		"no selector":                  {"", []map[string]string{leader}, workload.Unstated, false},
		"a selector of several values": {"worker-index in (0,1)", []map[string]string{leader, worker}, workload.SelectsAll, false},
		"a malformed selector":         {"a in (", nil, workload.Unstated, true},
	} {
		got, err := workload.SelectionOf(c.selector, slices.Values(c.pods))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: SelectionOf() = %v, error %v, want %v", claim, got, err, c.want)
		}
	}
}
