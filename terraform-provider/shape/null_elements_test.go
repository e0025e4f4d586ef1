package shape_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

func TestNullElements(t *testing.T) {
	text := func(s any) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	texts := tftypes.Map{ElementType: tftypes.String}
	terms := tftypes.List{ElementType: texts}
	names := tftypes.Set{ElementType: tftypes.String}
	of := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"labels": texts, "terms": terms, "names": names}}
	object := func(labels, inTerm map[string]tftypes.Value, some []tftypes.Value) tftypes.Value {
		return tftypes.NewValue(of, map[string]tftypes.Value{
			"labels": tftypes.NewValue(texts, labels), "names": tftypes.NewValue(names, some),
			"terms": tftypes.NewValue(terms, []tftypes.Value{tftypes.NewValue(texts, nil), tftypes.NewValue(texts, inTerm)}),
		})
	}
	for claim, test := range map[string]struct {
		given tftypes.Value
		want  []string
	}{
		"an object that is null has none":    {tftypes.NewValue(of, nil), nil},
		"an object that is unknown has none": {tftypes.NewValue(of, tftypes.UnknownValue), nil},
		"attributes that are null are none":  {tftypes.NewValue(of, map[string]tftypes.Value{"labels": tftypes.NewValue(texts, nil), "names": tftypes.NewValue(names, nil), "terms": tftypes.NewValue(terms, nil)}), nil},
		"a value and an unknown one are none, a map in a list is one": {
			object(map[string]tftypes.Value{"a": text(""), "b": text(tftypes.UnknownValue)}, map[string]tftypes.Value{}, []tftypes.Value{text("")}),
			[]string{"terms[0]"},
		},
		"all are found, at any depth": {
			object(map[string]tftypes.Value{"b": text(nil), "a": text(nil), "c": text("c")}, map[string]tftypes.Value{"x/y": text(nil)}, []tftypes.Value{text(nil)}),
			[]string{"An element of names", `labels["a"]`, `labels["b"]`, "terms[0]", `terms[1]["x/y"]`},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			found, err := shape.NullElements(test.given)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range found {
				got = append(got, one.Text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("NullElements() (-want +got):\n%s", diff)
			}
		})
	}
}

// What an apply writes never lacks an element of the plan.
func TestEncodeRejectsNullElementsOfMaps(t *testing.T) {
	field := &shape.Field{Kind: shape.Map, Element: &shape.Field{Kind: shape.String}}
	of := tftypes.Map{ElementType: tftypes.String}
	v := tftypes.NewValue(of, map[string]tftypes.Value{"app": tftypes.NewValue(tftypes.String, "web"), "tier": tftypes.NewValue(tftypes.String, nil)})
	if e, err := field.Encode(nil, v); err == nil || err.Error() != "tier: it is null" {
		t.Errorf("Encode() = %v, error %v", e, err)
	}
}
