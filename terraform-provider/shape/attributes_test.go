package shape_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

func TestWithDefaults(t *testing.T) {
	fields := shape.Fields{
		{JSON: "mode", Kind: shape.String, Default: "Deny"},
		{JSON: "unowned", Kind: shape.String, Default: "Deny", UnownedIfUnset: true},
		{JSON: "count", Kind: shape.Int},
		{JSON: "terms", Kind: shape.List, Element: &shape.Field{Kind: shape.Object, Fields: shape.Fields{
			{JSON: "on", Kind: shape.Bool, Default: true}, {JSON: "names", Kind: shape.Set, Element: &shape.Field{Kind: shape.String}},
		}}},
		{JSON: "window", Kind: shape.Object, Default: map[string]any{}, Fields: shape.Fields{{JSON: "seconds", Kind: shape.Int, Default: int64(5)}}},
	}
	window := map[string]any{"seconds": int64(5)}
	for claim, test := range map[string]struct{ given, want map[string]any }{
		"fields, and objects that a default creates": {map[string]any{}, map[string]any{"mode": "Deny", "window": window}},
		"given values stay": {
			map[string]any{"mode": "Allow", "unowned": "Allow", "count": int64(3), "window": map[string]any{"seconds": int64(1)}},
			map[string]any{"mode": "Allow", "unowned": "Allow", "count": int64(3), "window": map[string]any{"seconds": int64(1)}},
		},
		"elements of a list": {
			map[string]any{"terms": []any{map[string]any{"names": []any{"a"}}, map[string]any{"on": false}}},
			map[string]any{"mode": "Deny", "window": window, "terms": []any{map[string]any{"on": true, "names": []any{"a"}}, map[string]any{"on": false}}},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			if diff := cmp.Diff(test.want, fields.WithDefaults(test.given)); diff != "" {
				t.Errorf("WithDefaults() (-want +got):\n%s", diff)
			}
		})
	}
}
