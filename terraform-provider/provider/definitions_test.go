package provider_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// definitions returns the definitions of all API kinds, keyed by resource name.
func definitions(t *testing.T) map[string]*shape.Definition {
	t.Helper()
	entries, err := crds.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*shape.Definition{}
	for _, entry := range entries {
		d, err := shape.Read(crds.FS, entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[strings.ToLower(secondWord.ReplaceAllString(d.Kind.Kind, "${1}_$2"))] = d
	}
	return all
}

var secondWord = regexp.MustCompile(`([a-z])([A-Z])`)

func TestEveryKindIsResourceAndListResource(t *testing.T) {
	schemas, err := provider.Server("test")().GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all := definitions(t)
	for kind := range all {
		if name := "breakwater_" + kind; schemas.ResourceSchemas[name] == nil || schemas.ListResourceSchemas[name] == nil {
			t.Errorf("there is no %s among the resources, or among those that can be listed", name)
		}
	}
	if len(schemas.ResourceSchemas) != len(all) {
		t.Errorf("there are %d kinds, and %d resources", len(all), len(schemas.ResourceSchemas))
	}
}
