package chart

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// describe adds the comments of values to their JSON schema, as descriptions. A field of several components is described where it occurs first.
func describe(schema, values []byte) ([]byte, error) {
	var root map[string]any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	d := describer{root: root, shared: map[string]string{}}
	d.fields("", root, document.Content[0])
	if global, ok := d.properties(root)["global"].(map[string]any); ok && global["description"] == nil {
		global["description"] = "Values that Helm shares with the charts that depend on this one."
	}
	if len(d.missing) > 0 {
		return nil, fmt.Errorf("values.yaml has no comment above %s: the schema needs a description", strings.Join(d.missing, ", "))
	}
	return json.MarshalIndent(root, "", "  ")
}

type describer struct {
	root map[string]any
	// shared has the first description of each field name.
	shared map[string]string
	// missing lists the fields without a description.
	missing []string
}

// fields describes the properties of a schema that values have.
func (d *describer) fields(path string, schema map[string]any, values *yaml.Node) {
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		property, ok := d.properties(schema)[key.Value].(map[string]any)
		if !ok {
			continue
		}
		text := comment(key)
		if text == "" {
			text = d.shared[key.Value]
		} else if d.shared[key.Value] == "" {
			d.shared[key.Value] = text
		}
		if _, exists := property["description"]; !exists {
			property["description"] = text
		}
		if property["description"] == "" {
			d.missing = append(d.missing, path+key.Value)
		}
		if value.Kind == yaml.MappingNode {
			d.fields(path+key.Value+".", property, value)
		}
	}
}

// properties returns the properties of a schema, which may be a reference to a definition.
func (d *describer) properties(schema map[string]any) map[string]any {
	if reference, ok := schema["$ref"].(string); ok {
		definitions, _ := d.root["definitions"].(map[string]any)
		schema, _ = definitions[strings.TrimPrefix(reference, "#/definitions/")].(map[string]any)
	}
	properties, _ := schema["properties"].(map[string]any)
	return properties
}

// comment returns the text above a key.
func comment(key *yaml.Node) string {
	var words []string
	for line := range strings.Lines(key.HeadComment) {
		words = append(words, strings.TrimPrefix(strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "#")), "-- "))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
