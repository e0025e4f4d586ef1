package convert_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

func isKupid(kind convert.Kind) bool { return kind.Alias == "kupid" }

// drawTerm draws a term of node affinity that the API server may accept or reject.
func drawTerm(t *rapid.T) any {
	term := map[string]any{}
	if rapid.IntRange(0, 5).Draw(t, "expressions") > 0 {
		operator := oneOf(t, "operator", []any{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}, "Is", "").(string)
		e := map[string]any{"key": oneOf(t, "key", []any{"pool", "example.com/zone"}, "", "a b"), "operator": operator}
		switch {
		case operator == "Gt" || operator == "Lt":
			e["values"] = []any{oneOf(t, "number", []any{"0", "5"}, "x", "-1", strings.Repeat("9", 19))}
		case operator != "Exists" && operator != "DoesNotExist" || rapid.IntRange(0, 39).Draw(t, "wrong values") == 7:
			e["values"] = []any{oneOf(t, "value", []any{"a", "b", ""}, "a b", strings.Repeat("v", 64))}
		}
		term["matchExpressions"] = []any{e}
	}
	if rapid.IntRange(0, 5).Draw(t, "fields") == 0 {
		term["matchFields"] = []any{map[string]any{"key": oneOf(t, "field", []any{"metadata.name"}, "metadata.uid"),
			"operator": oneOf(t, "operator of a field", []any{"In", "NotIn"}, "Exists"), "values": []any{oneOf(t, "node", []any{"node-1"}, "Node", "")}}}
	}
	return term
}

func drawPodTerm(t *rapid.T) any {
	term := map[string]any{"topologyKey": oneOf(t, "topology", []any{"zone"}, "", "a b")}
	if rapid.Bool().Draw(t, "selects") {
		term["labelSelector"] = drawSelector(t, "pods")
	}
	for _, field := range []string{"matchLabelKeys", "mismatchLabelKeys"} {
		if rapid.IntRange(0, 9).Draw(t, field) == 0 {
			term[field] = []any{oneOf(t, field, []any{"app", "rev"}, "a b")}
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "namespaces") == 0 {
		term["namespaces"] = []any{oneOf(t, "namespace", []any{"shop"}, "Shop", "")}
	}
	return term
}

func drawList(t *rapid.T, what string, most int, each func(*rapid.T) any) []any {
	list := []any{}
	for range rapid.IntRange(0, most).Draw(t, what) {
		list = append(list, each(t))
	}
	return list
}

func drawToleration(t *rapid.T) any {
	toleration := map[string]any{}
	for field, values := range map[string][]any{
		"key": {"a", "b"}, "operator": {"Equal", "Exists"}, "value": {"", "x"}, "effect": {"", "NoExecute", "NoSchedule"}, "tolerationSeconds": {int64(0), int64(5)},
	} {
		if rapid.Bool().Draw(t, field+" is there") {
			toleration[field] = oneOf(t, field, values, "A B", int64(-1))
		}
	}
	return toleration
}

// drawKupidSpec draws arbitrary combinations of fields. It rarely draws nodeName, which excludes most others.
func drawKupidSpec(t *rapid.T) map[string]any {
	weighted := func(field string, each func(*rapid.T) any) func(*rapid.T) any {
		return func(t *rapid.T) any {
			return map[string]any{"weight": oneOf(t, "weight", []any{int64(1), int64(100)}, int64(0), int64(101)), field: each(t)}
		}
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	spec := map[string]any{}
	for _, selector := range []string{"podSelector", "namespaceSelector"} {
		if rapid.IntRange(0, 5).Draw(t, selector+" is there") > 0 {
			spec[selector] = drawSelector(t, selector)
		}
	}
	for _, maybe := range []struct {
		field string
		of    int
		draw  func() any
	}{
		{"nodeName", 9, func() any { return oneOf(t, "nodeName", []any{"node-1", ""}, "Node") }},
		{"schedulerName", 2, func() any { return oneOf(t, "schedulerName", []any{"mine", ""}, "a b") }},
		{"nodeSelector", 2, func() any {
			return map[string]any{oneOf(t, "label", []any{"pool", "a.b/c"}, "a b").(string): oneOf(t, "value", []any{"a", ""}, "a b", int64(1))}
		}},
		{"tolerations", 3, func() any { return drawList(t, "tolerations", 2, drawToleration) }},
		{"affinity", 1, func() any {
			nodes := map[string]any{preferred: drawList(t, "preferred", 2, weighted("preference", drawTerm))}
			if rapid.Bool().Draw(t, "required") {
				nodes[required] = map[string]any{"nodeSelectorTerms": drawList(t, "terms", 3, drawTerm)}
			}
			return map[string]any{"nodeAffinity": nodes, "podAntiAffinity": map[string]any{
				required: drawList(t, "pods", 2, drawPodTerm), preferred: drawList(t, "preferred pods", 1, weighted("podAffinityTerm", drawPodTerm)),
			}}
		}},
	} {
		if rapid.IntRange(0, maybe.of).Draw(t, maybe.field+" is there") == 0 {
			spec[maybe.field] = maybe.draw()
		}
	}
	return spec
}

// For any input, the API server accepts the result, or a warning reports that nothing was converted. Converting the result again changes
// nothing.
func TestConvertedPoliciesAreAccepted(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	converted := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		var kinds []convert.Kind
		for _, kind := range convert.Kinds() {
			if isKupid(kind) {
				kinds = append(kinds, kind)
			}
		}
		kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
		object := &unstructured.Unstructured{Object: map[string]any{"spec": drawKupidSpec(rt)}}
		object.SetGroupVersionKind(kind.WithVersion(kind.Versions[0]))
		object.SetName("web")
		if !kind.ClusterScoped {
			object.SetNamespace("default")
		}
		result := convert.Convert([]convert.Source{{Object: object}})
		if len(result.Policies) == 0 && (len(result.Warnings) != 1 || !result.Warnings[0].NotConverted) {
			rt.Fatalf("not converted without a reason: %v", result.Warnings)
		}
		converted[kind.Kind] += len(result.Policies)
		if err := wantPoliciesAccepted(t, c, result.Policies); err != nil {
			rt.Fatalf("API server rejected the conversion of %v: %v", object.Object["spec"], err)
		}
		for i := range result.Policies { // treat the result as a policy of kupid
			manifest, err := result.Policies[i].Manifest()
			if err != nil {
				rt.Fatal(err)
			}
			again := &unstructured.Unstructured{Object: manifest}
			again.SetGroupVersionKind(object.GroupVersionKind())
			if twice := convert.Convert([]convert.Source{{Object: again}}); len(twice.Policies) != 1 || !sameSpecs(t, result.Policies, twice.Policies) {
				rt.Fatalf("second conversion differs: %v", twice)
			}
		}
	})
	t.Logf("converted %v", converted)
	if !t.Failed() && (converted["PodSchedulingPolicy"] == 0 || converted["ClusterPodSchedulingPolicy"] == 0) {
		t.Errorf("converted %v, want some of each kind", converted)
	}
}

func sameSpecs(t *testing.T, a, b []convert.Policy) bool {
	t.Helper()
	return cmp.Equal(policySpecs(t, a), policySpecs(t, b))
}
