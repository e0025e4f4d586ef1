package examples_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
)

// schema is the schema of the provider, as Terraform prints it.
type schema struct {
	Provider  block                      `json:"provider"`
	Resources map[string]block           `json:"resource_schemas"`
	Data      map[string]block           `json:"data_source_schemas"`
	Lists     map[string]block           `json:"list_resource_schemas"`
	Actions   map[string]block           `json:"action_schemas"`
	Functions map[string]json.RawMessage `json:"functions"`
}

type block struct {
	Block attributes `json:"block"`
}

type attributes struct {
	Attributes map[string]struct {
		Description string      `json:"description"`
		Nested      *attributes `json:"nested_type"`
	} `json:"attributes"`
	Blocks map[string]block `json:"block_types"`
}

func schemaOf(t *testing.T) schema {
	t.Helper()
	found := struct {
		Schemas map[string]schema `json:"provider_schemas"`
	}{}
	parse(t, terraform.New(t, terraform.Terraform, "").Run("providers", "schema", "-json"), &found)
	return found.Schemas["registry.terraform.io/breakwater-k8s/breakwater"]
}

// parse parses the JSON that a program prints after its warnings.
func parse(t *testing.T, out string, into any) {
	t.Helper()
	_, object, _ := strings.Cut(out, "{")
	if err := json.Unmarshal([]byte("{"+object), into); err != nil {
		t.Fatal(err)
	}
}

// folders returns the directories in which tfplugindocs looks for examples, with the names of their subdirectories.
func (s schema) folders() map[string][]string {
	all := map[string][]string{}
	for folder, of := range map[string]map[string]block{
		"resources": s.Resources, "data-sources": s.Data, "list-resources": s.Lists, "actions": s.Actions,
	} {
		all[folder] = slices.Sorted(maps.Keys(of))
	}
	all["functions"] = slices.Sorted(maps.Keys(s.Functions))
	return all
}

// A new resource, function or other part of the provider fails this test until it has an example. So does an example that no test
// runs.
func TestEverythingHasAnExample(t *testing.T) {
	files := map[string]string{"resources": "resource*.tf", "data-sources": "data-source*.tf",
		"list-resources": "list-resource*.tfquery.hcl", "actions": "action*.tf", "functions": "function*.tf"}
	schema := schemaOf(t)
	if len(schema.Resources) == 0 {
		t.Fatal("Terraform knows no resources of the provider")
	}
	known := matching(t, "provider/provider*.tf", "provider/*.yaml", "guides/*/*.tf")
	for folder, names := range schema.folders() {
		for _, name := range names {
			found := matching(t, filepath.Join(folder, name, files[folder]))
			if len(found) == 0 {
				t.Errorf("%s of %s has no example: write %s", name, folder, filepath.Join(folder, name, files[folder]))
			}
			known = append(known, found...)
			if folder == "resources" {
				known = append(known, matching(t, filepath.Join(folder, name, "import*"))...)
			}
		}
	}
	for _, path := range all(t) {
		if !slices.Contains(known, path) {
			t.Errorf("%s is an example of nothing that there is, or has a name that tfplugindocs does not look for", path)
		}
	}
	for _, name := range schema.folders()["resources"] {
		for _, file := range []string{"import.sh", "import-by-string-id.tf", "import-by-identity.tf"} {
			if len(matching(t, filepath.Join("resources", name, file))) == 0 {
				t.Errorf("%s has no %s", name, file)
			}
		}
	}
}

func TestEveryAttributeIsDescribed(t *testing.T) {
	schema := schemaOf(t)
	schema.Provider.Block.described(t, "provider")
	for folder, of := range map[string]map[string]block{
		"resource": schema.Resources, "data source": schema.Data, "list resource": schema.Lists, "action": schema.Actions,
	} {
		for name, b := range of {
			b.Block.described(t, folder+" "+name)
		}
	}
}

func (a *attributes) described(t *testing.T, at string) {
	t.Helper()
	for name, attribute := range a.Attributes {
		if len(attribute.Description) < len("A few words.") {
			t.Errorf("%s.%s has no description", at, name)
		}
		if attribute.Nested != nil {
			attribute.Nested.described(t, at+"."+name)
		}
	}
	for name, b := range a.Blocks {
		b.Block.described(t, at+"."+name)
	}
}

// The table of environment variables on the provider's page has exactly the variables that the attributes mention.
func TestPageListsEveryVariable(t *testing.T) {
	page, generated, _ := strings.Cut(read(t, "../docs/index.md"), "## Schema")
	_, table, _ := strings.Cut(page, "## Environment variables")
	table, _, _ = strings.Cut(table, "None of them")
	variables := func(text string) []string {
		found := regexp.MustCompile("`(KUBE[A-Z_]+)`").FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	if diff := cmp.Diff(variables(generated), variables(table)); diff != "" {
		t.Errorf("- those of the attributes, + those of the page\n%s", diff)
	}
}

func TestExamplesAreFormatted(t *testing.T) {
	readExternal(t, all(t)...)
	folder, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	terraform.New(t, terraform.Terraform, "").Run("fmt", "-check", "-recursive", "-diff", folder)
}

// Users can paste each example alone: it does not refer to other examples.
func TestExamplesAreSelfContained(t *testing.T) {
	for _, path := range matching(t, "*/*/resource*.tf", "*/*/data-source*.tf", "*/*/action*.tf", "functions/*/*.tf", "provider/provider_*.tf") {
		t.Run(path, func(t *testing.T) {
			d := terraform.New(t, terraform.Terraform, "")
			addExample(t, d, path)
			d.Write("core-ca.crt", "")
			d.Run("validate")
		})
	}
}
