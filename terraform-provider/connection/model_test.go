package connection_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// configuration is a configuration by attribute name. Missing attributes are null.
type configuration map[string]any

// unknown is a value that only becomes known during the apply.
type unknown struct{}

// model reads a configuration as the provider does.
func (s configuration) model(t *testing.T) *connection.Model {
	t.Helper()
	schema := connection.Schema()
	raw := value(t, schema.Type().TerraformType(t.Context()), map[string]any(s))
	m := &connection.Model{}
	if d := (tfsdk.Config{Schema: schema, Raw: raw}).Get(t.Context(), m); d.HasError() {
		t.Fatal(d)
	}
	return m
}

func value(t *testing.T, of tftypes.Type, v any) tftypes.Value {
	t.Helper()
	switch v := v.(type) {
	case unknown:
		return tftypes.NewValue(of, tftypes.UnknownValue)
	case map[string]any:
		all := map[string]tftypes.Value{}
		if object, ok := of.(tftypes.Object); ok {
			for name, inner := range object.AttributeTypes {
				all[name] = value(t, inner, v[name])
			}
			for name := range v {
				if _, ok := object.AttributeTypes[name]; !ok {
					t.Fatalf("there is no attribute %s", name)
				}
			}
			return tftypes.NewValue(of, all)
		}
		for key, inner := range v {
			all[key] = value(t, of.(tftypes.Map).ElementType, inner)
		}
		return tftypes.NewValue(of, all)
	case []any:
		all := make([]tftypes.Value, len(v))
		for i, inner := range v {
			all[i] = value(t, of.(tftypes.List).ElementType, inner)
		}
		return tftypes.NewValue(of, all)
	}
	return tftypes.NewValue(of, v)
}
