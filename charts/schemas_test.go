package charts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func labelsText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}

// kubeconform checks manifests without a cluster. Its schemas come from the API server's OpenAPI documents, so that they include
// the kinds of Breakwater and cert-manager.
func TestKubeconformAcceptsRenderedObjects(t *testing.T) {
	apiserver(t)
	schemas := schemasOf(t)
	forEachValueSet(t, func(t *testing.T, set string) {
		text, err := template(t, "--values", set)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := kubeconform(t, schemas, text, "-skip", "ServiceMonitor,PodMonitor,PrometheusRule"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	broken := "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {maxUnavailabel: 1}\n"
	if out, err := kubeconform(t, schemas, broken); err == nil || !strings.Contains(out, "maxUnavailabel") {
		t.Errorf("kubeconform of an unknown field: error %v, output %q", err, out)
	}
}

func kubeconform(t *testing.T, schemas, text string, arguments ...string) (string, error) {
	t.Helper()
	location := filepath.Join(schemas, "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
	command := exec.CommandContext(t.Context(), toolPath(t, "kubeconform"), append(arguments, "-schema-location", location, "-summary", "-")...)
	command.Stdin = strings.NewReader(text)
	out, err := command.CombinedOutput()
	return string(out), err
}

// schemasOf writes a schema for each kind that the API server serves, and returns their directory.
func schemasOf(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	paths, err := discovery.NewDiscoveryClientForConfigOrDie(testplane.Config(t)).OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for path, group := range paths {
		if err := writeSchemas(folder, path, group); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return folder
}

func writeSchemas(folder, path string, group openapi.GroupVersion) error {
	if !strings.HasPrefix(path, "api/") && !strings.HasPrefix(path, "apis/") {
		return nil
	}
	raw, err := group.Schema("application/json")
	if err != nil {
		return err
	}
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	schemas := document.Components.Schemas
	for _, schema := range schemas {
		forbidUnknown(schema)
	}
	for name, schema := range schemas {
		kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			k, ok := kind.(map[string]any)
			if !ok {
				return errors.New("a kind that is none")
			}
			group := k["group"]
			if group == "" {
				group = k["version"] // as kubeconform names the core group
			}
			file := strings.ToLower(fmt.Sprintf("%v-%v-%v.json", k["kind"], group, k["version"]))
			whole, err := json.Marshal(map[string]any{"$ref": "#/components/schemas/" + name, "components": map[string]any{"schemas": schemas}})
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, file), whole, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// forbidUnknown makes a schema reject unknown fields wherever it lists the known ones.
func forbidUnknown(schema map[string]any) {
	keeps, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
	if _, hasProperties := schema["properties"]; hasProperties && !keeps && schema["additionalProperties"] == nil {
		schema["additionalProperties"] = false
	}
	for _, inner := range schema {
		switch inner := inner.(type) {
		case map[string]any:
			forbidUnknown(inner)
		case []any:
			for _, one := range inner {
				if one, ok := one.(map[string]any); ok && one["$ref"] == nil {
					forbidUnknown(one)
				}
			}
		}
	}
}
