package shape_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

func TestDescriptionsShowDefaultsWithNamesOfAttributes(t *testing.T) {
	for path, want := range map[string]string{
		"workloads.kinds": "Default: `[{\"api_version\":\"apps/v1\",\"kind\":\"Deployment\"},{\"api_version\":\"apps/v1\",\"kind\":\"StatefulSet\"}]`.",
		"priority":        "Default: `0`.",
	} {
		field := definition(t, "ProtectionPolicy").Spec
		for name := range strings.SplitSeq(path, ".") {
			field = field.Fields[slices.IndexFunc(field.Fields, func(f *shape.Field) bool { return f.JSON == name })]
		}
		if !strings.HasSuffix(field.Description, want) {
			t.Errorf("description of %s %q, want it to end with %q", path, field.Description, want)
		}
	}
}
