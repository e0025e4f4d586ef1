package chart

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescriptions(t *testing.T) {
	schema := `{"properties": {"webhook": {"$ref": "#/definitions/component"}, "sharder": {"properties": {"replicas": {}}}},
		"definitions": {"component": {"properties": {"replicas": {}}}}}`
	values := "# -- The webhook,\n# in each cluster.\nwebhook:\n  # Number of replicas.\n  replicas: 1\n# The sharder.\nsharder:\n  replicas: 2\n"
	raw, err := describe([]byte(schema), []byte(values))
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	replicas := `{"replicas": {"description": "Number of replicas."}}`
	if err := json.Unmarshal([]byte(`{"properties": {
		"webhook": {"$ref": "#/definitions/component", "description": "The webhook, in each cluster."},
		"sharder": {"description": "The sharder.", "properties": `+replicas+`}}, "definitions": {"component": {"properties": `+replicas+`}}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := describe([]byte(schema), []byte("webhook: {replicas: 1}\n")); err == nil || !strings.Contains(err.Error(), "webhook, webhook.replicas") {
		t.Errorf("error %v, want one that names the fields without a comment", err)
	}
}

// Every value of both charts has a description in the schema of the release.
func TestAllValuesAreDescribed(t *testing.T) {
	for _, name := range Names() {
		folder := "../../../charts/" + name + "/"
		schema, err := os.ReadFile(folder + "values.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		values, err := os.ReadFile(folder + "values.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := describe(schema, values); err != nil {
			t.Errorf("chart %s: %v", name, err)
		}
	}
}

func TestChangesOfArtifactHub(t *testing.T) {
	notes := "### Added\n\n- `a` of\n  the chart. More.\n- B: that is new.\n\n### Fixed\n\n- **Safety**: c\n- d.\n"
	want := []map[string]string{
		{"kind": "added", "description": "`a` of the chart"}, {"kind": "added", "description": "B: that is new"},
		{"kind": "fixed", "description": "c"}, {"kind": "fixed", "description": "d"},
	}
	if diff := cmp.Diff(want, changes(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
