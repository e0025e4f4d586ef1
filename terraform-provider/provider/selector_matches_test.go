package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func podLabels(of map[string]string) types.Map {
	all := map[string]attr.Value{}
	for key, value := range of {
		all[key] = types.StringValue(value)
	}
	return types.MapValueMust(types.StringType, all)
}

type fields = map[string]any

func expression(key, operator string, values ...any) fields {
	e := fields{"key": key, "operator": operator}
	if values != nil {
		e["values"] = values
	}
	return e
}

func TestSelectorMatches(t *testing.T) {
	f := &selectorMatches{protectors: protectors(t)}
	pod := podLabels(map[string]string{"app": "web", "tier": "front", "version": "2"})
	for name, c := range map[string]struct {
		selector any
		labels   types.Map
		want     bool
	}{
		"null matches nothing":                            {nil, pod, false},
		"null does not match a pod without labels":        {nil, types.MapNull(types.StringType), false},
		"the empty selector matches every pod":            {fields{}, pod, true},
		"the empty selector matches a pod without labels": {fields{}, types.MapNull(types.StringType), true},
		"empty parts are as none":                         {fields{"match_labels": fields{}, "match_expressions": []any{}}, pod, true},
		"parts that are null are as none":                 {fields{"match_labels": nil, "match_expressions": nil}, pod, true},
		"a label":                                         {fields{"match_labels": fields{"app": "web"}}, pod, true},
		"another value":                                   {fields{"match_labels": fields{"app": "api"}}, pod, false},
		"a missing label":                                 {fields{"match_labels": fields{"app": "web", "zone": "a"}}, pod, false},
		"a number is a text":                              {fields{"match_labels": fields{"version": json.Number("2")}}, pod, true},
		"In":                                              {fields{"match_expressions": []any{expression("tier", "In", "back", "front")}}, pod, true},
		"not In":                                          {fields{"match_expressions": []any{expression("tier", "In", "back")}}, pod, false},
		"NotIn":                                           {fields{"match_expressions": []any{expression("tier", "NotIn", "back")}}, pod, true},
		"NotIn without the label":                         {fields{"match_expressions": []any{expression("zone", "NotIn", "a")}}, pod, true},
		"Exists":                                          {fields{"match_expressions": []any{expression("tier", "Exists")}}, pod, true},
		"Exists with null values, as in HCL":              {fields{"match_expressions": []any{fields{"key": "tier", "operator": "Exists", "values": nil}}}, pod, true},
		"DoesNotExist":                                    {fields{"match_expressions": []any{expression("tier", "DoesNotExist")}}, pod, false},
		"a pod must match all of them":                    {fields{"match_labels": fields{"app": "web"}, "match_expressions": []any{expression("tier", "In", "back")}}, pod, false},
	} {
		t.Run(name, func(t *testing.T) {
			argument := types.DynamicNull()
			if c.selector != nil {
				argument = given(t, c.selector)
			}
			got, complaint := call(t, f, argument, c.labels)
			if complaint != "" {
				t.Fatal(complaint)
			}
			if got.(types.Bool).ValueBool() != c.want {
				t.Errorf("error %s", got)
			}
		})
	}
}

func TestSelectorMatchesErrors(t *testing.T) {
	f := &selectorMatches{protectors: protectors(t)}
	for want, selector := range map[string]any{
		"Invalid selector: selector.match_expressions[0].values: values must hold at least one value for In and NotIn": fields{"match_expressions": []any{expression("tier", "In")}},
		"and none for Exists and DoesNotExist":                                         fields{"match_expressions": []any{expression("tier", "Exists", "a")}},
		`selector.match_expressions[1].operator: must be one of "In", "NotIn"`:         fields{"match_expressions": []any{expression("tier", "Exists"), expression("tier", "Is", "a")}},
		"selector.match_expressions[0].key: Required value":                            fields{"match_expressions": []any{fields{"operator": "Exists"}}},
		"key must be a label key":                                                      fields{"match_expressions": []any{expression("a b", "Exists")}},
		"selector.match_labels: match_labels has a key that is not a label key":        fields{"match_labels": fields{"-": "a"}},
		`selector.match_labels["app"]: must be a label value`:                          fields{"match_labels": fields{"app": "a b"}},
		"selector has no matchLabels: it has match_expressions, match_labels":          fields{"matchLabels": fields{"app": "web"}},
		"selector.match_labels is a list, but must be an object":                       fields{"match_labels": []any{"app"}},
		"selector.match_labels.app is a list, but must be a text":                      fields{"match_labels": fields{"app": []any{nil}}},
		"selector.match_expressions[0] is null, but must be an object":                 fields{"match_expressions": []any{nil}},
		"selector.match_labels.app is null, but must be a text":                        fields{"match_labels": fields{"app": nil}},
		"selector.match_expressions[0].values[0] is null, but must be a text":          fields{"match_expressions": []any{fields{"key": "a", "operator": "In", "values": []any{nil}}}},
		"selector is a text, but must be an object":                                    "app=web",
		"selector.match_expressions[0] has no operators: it has key, operator, values": fields{"match_expressions": []any{fields{"key": "a", "operators": "In"}}},
	} {
		t.Run(want, func(t *testing.T) {
			if got, complaint := call(t, f, given(t, selector), podLabels(nil)); !strings.Contains(complaint, want) {
				t.Errorf("got %v, error %q", got, complaint)
			}
		})
	}
	null := types.MapValueMust(types.StringType, map[string]attr.Value{"app": types.StringNull()})
	if _, complaint := call(t, f, given(t, fields{}), null); !strings.Contains(complaint, `The label "app" is null`) {
		t.Errorf("a label without a value: %q", complaint)
	}
}
