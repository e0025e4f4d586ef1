package shape_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

func TestAreComplete(t *testing.T) {
	fields := shape.Fields{
		{JSON: "mode", Name: "mode", Kind: shape.String, Default: "Deny"},
		{JSON: "unowned", Name: "unowned", Kind: shape.String, Default: "Deny", UnownedIfUnset: true},
		{JSON: "count", Name: "count", Kind: shape.Int},
		{JSON: "terms", Name: "terms", Kind: shape.List, Element: &shape.Field{Kind: shape.Object, Fields: shape.Fields{
			{JSON: "on", Name: "on", Kind: shape.Bool, Default: true}, {JSON: "names", Name: "names", Kind: shape.Set, Element: &shape.Field{Kind: shape.String}},
		}}},
	}
	defaults, err := fields.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	state := func(mode string, count any, on ...any) map[string]any {
		terms := []any{}
		for _, v := range on {
			terms = append(terms, map[string]any{"on": v, "names": []any{"a"}})
		}
		return map[string]any{"mode": mode, "count": count, "terms": terms}
	}
	configuration := func(all map[string]any, mode any) map[string]any {
		all["mode"] = mode
		return all
	}
	for claim, test := range map[string]struct {
		configured, state map[string]any
		want              bool
	}{
		"defaults of fields and of elements complete a configuration": {configuration(state("", int64(3), nil, true), nil), state("Deny", int64(3), true, true), true},
		"nothing is set": {map[string]any{}, map[string]any{"mode": "Deny"}, true},
		"another value than the default is a change":              {map[string]any{}, map[string]any{"mode": "Allow"}, false},
		"a missing default is a change":                           {map[string]any{}, map[string]any{}, false},
		"another value than the configured one is a change":       {state("Allow", int64(3)), state("Deny", int64(3)), false},
		"a value that is not configured is a change":              {configuration(state("", nil), nil), state("Deny", int64(3)), false},
		"another number is a change":                              {state("Deny", int64(4)), state("Deny", int64(3)), false},
		"a default of an element that is missing is a change":     {state("Deny", int64(3), nil), state("Deny", int64(3), false), false},
		"another number of elements is a change":                  {state("Deny", int64(3), true), state("Deny", int64(3), true, true), false},
		"an unowned field has no default that Terraform sets":     {map[string]any{}, map[string]any{"mode": "Deny", "unowned": "Deny"}, false},
		"an unowned field that is configured and had is the same": {map[string]any{"unowned": "x"}, map[string]any{"mode": "Deny", "unowned": "x"}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := defaults.AreComplete(fields, decoded(t, fields, test.configured), decoded(t, fields, test.state)); got != test.want {
				t.Errorf("AreComplete() = %v, want %v", got, test.want)
			}
		})
	}
	unknown := decoded(t, fields, state("Deny", nil))
	unknown["count"] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	if defaults.AreComplete(fields, unknown, decoded(t, fields, state("Deny", nil))) {
		t.Error("AreComplete() = true for an unknown value, want false")
	}
}

func decoded(t *testing.T, fields shape.Fields, object map[string]any) map[string]tftypes.Value {
	t.Helper()
	all := map[string]tftypes.Value{}
	for _, f := range fields {
		var err error
		if all[f.Name], err = f.Decode(object[f.JSON]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
