package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// writer writes the kinds of the page.
type writer struct {
	out *bytes.Buffer
	// told maps the schema of an object to the place that describes its fields.
	told map[string]string
	// current is the kind that is being written.
	current string
}

func (w *writer) kind(definition *apiextensionsv1.CustomResourceDefinition) {
	names, version := definition.Spec.Names, definition.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	w.current = names.Kind
	fmt.Fprintf(w.out, "\n## %s\n\n%s\n\n", names.Kind, schema.Description)
	scope := "Cluster-scoped"
	if definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
		scope = "Namespaced"
	}
	fmt.Fprintf(w.out, "%s, in the core cluster. Names for kubectl: `%s`", scope, names.Plural)
	for _, short := range names.ShortNames {
		fmt.Fprintf(w.out, ", `%s`", short)
	}
	w.out.WriteString(".")
	for _, rule := range rules(schema) {
		w.out.WriteString(" " + rule)
	}
	w.out.WriteString("\n\n")
	w.columns(version.AdditionalPrinterColumns)
	for _, part := range []string{"spec", "status"} {
		value, ok := schema.Properties[part]
		if !ok {
			continue
		}
		fmt.Fprintf(w.out, "### %s %s\n\n", names.Kind, part)
		if all := rules(&value); len(all) > 0 {
			fmt.Fprintf(w.out, "%s\n\n", strings.Join(all, " "))
		}
		w.out.WriteString("| field | type | meaning |\n| --- | --- | --- |\n")
		w.fields(part, &value)
		w.out.WriteString("\n")
	}
}

func (w *writer) columns(columns []apiextensionsv1.CustomResourceColumnDefinition) {
	var usual, wide []string
	for _, c := range columns {
		if c.Priority == 0 {
			usual = append(usual, strings.ToUpper(c.Name))
		} else {
			wide = append(wide, strings.ToUpper(c.Name))
		}
	}
	fmt.Fprintf(w.out, "`kubectl get` shows %s", strings.Join(usual, ", "))
	if len(wide) > 0 {
		fmt.Fprintf(w.out, ", and with `-o wide` %s", strings.Join(wide, ", "))
	}
	w.out.WriteString(".\n\n")
}

// fields writes a row for each field of an object, and for the fields below it.
func (w *writer) fields(at string, object *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field := object.Properties[name]
		w.field(at+"."+name, &field, slices.Contains(object.Required, name))
	}
}

func (w *writer) field(at string, field *apiextensionsv1.JSONSchemaProps, required bool) {
	inner, below := deepest(at, field)
	meaning := []string{cell(field.Description)}
	if required {
		meaning = append(meaning, "Required.")
	}
	meaning = append(meaning, limits(field)...)
	known, again := w.known(below, inner)
	if again {
		meaning = append(meaning, fmt.Sprintf("Its fields are those of [%s](#%s).", known, anchor(known)))
	}
	id := w.current + "." + at
	fmt.Fprintf(w.out, "| <a id=\"%s\"></a>`%s` | %s | %s |\n", anchor(id), at, kindOf(field), strings.Join(slices.DeleteFunc(meaning, empty), " "))
	if !again {
		w.fields(below, inner)
	}
}

// known returns the place that already describes an object with the same fields. Otherwise it records this place.
func (w *writer) known(at string, object *apiextensionsv1.JSONSchemaProps) (string, bool) {
	if len(object.Properties) == 0 {
		return "", false
	}
	key, err := json.Marshal(object.Properties)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	if place, ok := w.told[string(key)]; ok {
		return place, true
	}
	w.told[string(key)] = w.current + "." + strings.TrimSuffix(at, "[]")
	return "", false
}

func anchor(id string) string { return strings.ToLower(strings.ReplaceAll(id, "[]", "")) }

func empty(s string) bool { return s == "" }

// deepest returns the element type of nested lists, or the value type of a map, and its path.
func deepest(at string, field *apiextensionsv1.JSONSchemaProps) (*apiextensionsv1.JSONSchemaProps, string) {
	for field.Items != nil && field.Items.Schema != nil {
		field, at = field.Items.Schema, at+"[]"
	}
	if field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil {
		return field.AdditionalProperties.Schema, at + ".*"
	}
	return field, at
}

func kindOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "number or percentage"
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + kindOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + kindOf(field.AdditionalProperties.Schema)
	case field.Format == "date-time", field.Format == "duration":
		return strings.ReplaceAll(field.Format, "date-time", "time")
	case field.Format == "byte":
		return "base64"
	}
	return field.Type
}
