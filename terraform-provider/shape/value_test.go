package shape_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// definitions returns the definitions of all API kinds.
func definitions(t testing.TB) []*shape.Definition {
	t.Helper()
	entries, err := crds.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var all []*shape.Definition
	for _, entry := range entries {
		d, err := shape.Read(crds.FS, entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func definition(t testing.TB, kind string) *shape.Definition {
	t.Helper()
	for _, d := range definitions(t) {
		if d.Kind.Kind == kind {
			return d
		}
	}
	t.Fatalf("the API has no %s", kind)
	return nil
}

// drawValue draws JSON that is valid for a field.
func drawValue(t *rapid.T, f *shape.Field, label string) any {
	switch f.Kind {
	case shape.Object:
		object := map[string]any{}
		for _, c := range f.Fields {
			if rapid.Bool().Draw(t, label+"."+c.JSON) {
				object[c.JSON] = drawValue(t, c, label+"."+c.JSON)
			}
		}
		if labels, ok := object["matchLabels"].(map[string]any); ok && len(object) == 1 && len(labels) == 0 {
			return map[string]any{} // which means the same
		}
		return object
	case shape.Map:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, label+" size") {
			object[rapid.String().Draw(t, label+" key")] = drawValue(t, f.Element, label+"[]")
		}
		return object
	case shape.List, shape.Set:
		list := []any{}
		for i := range rapid.IntRange(0, 3).Draw(t, label+" size") {
			list = append(list, drawValue(t, f.Element, fmt.Sprintf("%s[%d]", label, i)))
		}
		return list
	case shape.Int:
		return int64(rapid.Int32().Draw(t, label))
	case shape.Bool:
		return rapid.Bool().Draw(t, label)
	case shape.IntOrPercent:
		if rapid.Bool().Draw(t, label+" is a number") {
			return int64(rapid.Int32().Draw(t, label))
		}
		return fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, label))
	default:
		return rapid.String().Draw(t, label)
	}
}

// Encoding a decoded object returns the same object, for the spec and status of every kind.
func TestEncodeDecodeRoundTrip(t *testing.T) {
	for _, d := range definitions(t) {
		for part, field := range map[string]*shape.Field{"spec": d.Spec, "status": d.Status} {
			t.Run(d.Kind.Kind+"/"+part, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					want := drawValue(t, field, part)
					decoded, err := field.Decode(want)
					if err != nil {
						t.Fatalf("decode %v: %v", want, err)
					}
					got, err := field.Encode(shape.Path{part}, decoded)
					if err != nil {
						t.Fatalf("encode %v: %v", decoded, err)
					}
					if diff := cmp.Diff(want, got.Value); diff != "" || len(got.Unknown) > 0 {
						t.Fatalf("unknown %v, and what came back is not what it was (-was +is):\n%s", got.Unknown, diff)
					}
				})
			})
		}
	}
}

func TestDecodeReportsUnexpectedValues(t *testing.T) {
	for claim, test := range map[string]struct {
		field *shape.Field
		from  any
	}{
		"a list for a number":          {&shape.Field{Kind: shape.Int}, []any{}},
		"a text for a number":          {&shape.Field{Kind: shape.Int}, "1"},
		"half a pod":                   {&shape.Field{Kind: shape.IntOrPercent}, 0.5},
		"a number for a text":          {&shape.Field{Kind: shape.String}, int64(1)},
		"a text for an object":         {&shape.Field{Kind: shape.Object}, "x"},
		"an object for a list":         {&shape.Field{Kind: shape.List, Element: &shape.Field{}}, map[string]any{}},
		"a number for one of its keys": {&shape.Field{Kind: shape.Map, Element: &shape.Field{}}, map[string]any{"a": int64(1)}},
	} {
		t.Run(claim, func(t *testing.T) {
			if v, err := test.field.Decode(test.from); err == nil {
				t.Errorf("it was taken for %v", v)
			}
		})
	}
}
