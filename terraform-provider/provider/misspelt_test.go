package provider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Terraform drops the names in a nested object that the schema does not have, and only then asks the provider. So an object of YAML names
// arrives without their values. The provider must reject it, for each nested object of each schema.
func TestObjectOfYAMLNamesIsRejected(t *testing.T) {
	s := newProtocolClientWithoutCluster(t)
	checked := 0
	for name, schema := range s.schemas.ResourceSchemas {
		checked += s.checkMisspelt(schema, func(config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			r, err := s.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: name, Config: config})
			return r.Diagnostics, err
		}, name)
	}
	for name, schema := range s.schemas.DataSourceSchemas {
		checked += s.checkMisspelt(schema, func(config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			r, err := s.ValidateDataResourceConfig(t.Context(), &tfprotov6.ValidateDataResourceConfigRequest{TypeName: name, Config: config})
			return r.Diagnostics, err
		}, name)
	}
	for name, schema := range s.schemas.ListResourceSchemas {
		checked += s.checkMisspelt(schema, nil, name)
	}
	for name, schema := range s.schemas.ActionSchemas {
		checked += s.checkMisspelt(schema.Schema, nil, name)
	}
	checked += s.checkMisspelt(s.schemas.Provider, nil, "provider")
	if checked < 100 {
		t.Errorf("checked %d nested objects, want at least 100", checked)
	}
}

// validation validates a configuration as Terraform asks for it.
type validation func(*tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error)

// checkMisspelt checks each nested object of a schema that a configuration can set, and returns their number.
func (s *protocolClient) checkMisspelt(schema *tfprotov6.Schema, validate validation, name string) int {
	s.t.Helper()
	checked := 0
	for _, to := range nestedObjects(nil, schema.Block.Attributes) {
		checked++
		if validate == nil {
			s.t.Errorf("%s %v: the test has no validation for a nested object of this kind", name, to)
			continue
		}
		yaml := map[string]bool{}
		for _, a := range to[len(to)-1].NestedType.Attributes {
			yaml[camel(a.Name)] = true
		}
		// What is left of the YAML names after Terraform has dropped those that the schema lacks. Names of one word are equal in both.
		var left []*tfprotov6.SchemaAttribute
		for _, a := range to[len(to)-1].NestedType.Attributes {
			if yaml[a.Name] {
				left = append(left, a)
			}
		}
		for _, keep := range [][]*tfprotov6.SchemaAttribute{nil, left} {
			if keep != nil && (len(keep) == len(yaml) || !slices.ContainsFunc(to[len(to)-1].NestedType.Attributes, func(a *tfprotov6.SchemaAttribute) bool {
				return a.Required && !yaml[a.Name]
			})) {
				continue // the names left are a valid object: a limit that the provider's page documents
			}
			found, err := validate(s.object(schema, values{to[0].Name: nestedValue(to, keep)}))
			if err != nil {
				s.t.Fatal(err)
			}
			s.wantRejection(found, name, to, keep == nil)
		}
	}
	return checked
}

// wantRejection checks that an error is at the object or at a required attribute of it.
func (s *protocolClient) wantRejection(found []*tfprotov6.Diagnostic, name string, to []*tfprotov6.SchemaAttribute, empty bool) {
	s.t.Helper()
	at := withoutPositions.ReplaceAllString(attributePath(to), "")
	for _, d := range found {
		got := withoutPositions.ReplaceAllString(d.Attribute.String(), "")
		if d.Severity != tfprotov6.DiagnosticSeverityError || d.Attribute == nil || !strings.HasPrefix(got, at) {
			continue
		}
		text := d.Summary + ": " + d.Detail
		if !empty || got != at {
			return
		}
		if !strings.Contains(text, "Nothing is set: "+readablePath(to)+" sets none of its attributes") {
			continue
		}
		for _, a := range to[len(to)-1].NestedType.Attributes {
			if !strings.Contains(text, a.Name) {
				s.t.Errorf("%s %s: the error does not name %s: %s", name, at, a.Name, text)
			}
		}
		if strings.HasSuffix(at, `selector")`) && !strings.Contains(text, "{ match_labels = {} }") {
			s.t.Errorf("%s %s: the error does not say how to select everything: %s", name, at, text)
		}
		return
	}
	s.t.Errorf("%s: %s of YAML names is accepted: %s", name, readablePath(to), diagnosticText(found))
}

var withoutPositions = regexp.MustCompile(`\.?Element[A-Za-z]*\([^)]*\)`)

// nestedObjects returns the paths of all nested objects that a configuration can set, and that have attributes.
func nestedObjects(at, attributes []*tfprotov6.SchemaAttribute) (all [][]*tfprotov6.SchemaAttribute) {
	for _, a := range attributes {
		if a.NestedType == nil || !a.Optional && !a.Required {
			continue
		}
		to := append(slices.Clone(at), a)
		if len(a.NestedType.Attributes) > 0 {
			all = append(all, to)
		}
		all = append(all, nestedObjects(to, a.NestedType.Attributes)...)
	}
	return all
}

// nestedValue returns the value of the first attribute of a path, in which only what leads to the last object is set, and in that only
// the attributes to keep.
func nestedValue(to, keep []*tfprotov6.SchemaAttribute) tftypes.Value {
	object := to[0].NestedType
	of := objectType(object)
	all := map[string]tftypes.Value{}
	for name, t := range of.AttributeTypes {
		all[name] = tftypes.NewValue(t, nil)
	}
	if len(to) > 1 {
		all[to[1].Name] = nestedValue(to[1:], keep)
	} else {
		for _, a := range keep {
			all[a.Name] = tftypes.NewValue(of.AttributeTypes[a.Name], tftypes.UnknownValue)
		}
	}
	v := tftypes.NewValue(of, all)
	if object.Nesting == tfprotov6.SchemaObjectNestingModeList {
		v = tftypes.NewValue(tftypes.List{ElementType: of}, []tftypes.Value{v})
	}
	return v
}

func objectType(object *tfprotov6.SchemaObject) tftypes.Object {
	switch of := object.ValueType().(type) {
	case tftypes.List:
		return of.ElementType.(tftypes.Object)
	case tftypes.Object:
		return of
	default:
		panic("the test knows no nested attribute of type " + of.String())
	}
}

func attributePath(to []*tfprotov6.SchemaAttribute) string {
	at := tftypes.NewAttributePath()
	for _, a := range to {
		at = at.WithAttributeName(a.Name)
	}
	return at.String()
}

// readablePath returns the path as messages have it, with the first elements of lists.
func readablePath(to []*tfprotov6.SchemaAttribute) string {
	names := make([]string, len(to))
	for i, a := range to {
		if names[i] = a.Name; a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeList {
			names[i] += "[0]"
		}
	}
	return strings.Join(names, ".")
}

// camel returns the name of an attribute as YAML spells it.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// An unknown value is set: what it is shows in the apply.
func TestUnknownValuesSetAnObject(t *testing.T) {
	s := newProtocolClientWithoutCluster(t)
	schema := s.schemas.ResourceSchemas["breakwater_pod_protector"]
	selector := schema.ValueType().(tftypes.Object).AttributeTypes["selector"].(tftypes.Object)
	for claim, v := range map[string]tftypes.Value{
		"an unknown selector": tftypes.NewValue(selector, tftypes.UnknownValue),
		"unknown labels": tftypes.NewValue(selector, map[string]tftypes.Value{
			"match_labels":      tftypes.NewValue(selector.AttributeTypes["match_labels"], tftypes.UnknownValue),
			"match_expressions": tftypes.NewValue(selector.AttributeTypes["match_expressions"], nil),
		}),
		"no labels": tftypes.NewValue(selector, map[string]tftypes.Value{
			"match_labels":      tftypes.NewValue(selector.AttributeTypes["match_labels"], map[string]tftypes.Value{}),
			"match_expressions": tftypes.NewValue(selector.AttributeTypes["match_expressions"], nil),
		}),
	} {
		config := values{"namespace": stringArgument("shop"), "name": stringArgument("web"), "min_available": stringArgument("1"), "selector": v}
		r, err := s.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: "breakwater_pod_protector", Config: s.object(schema, config)})
		if err != nil || len(r.Diagnostics) > 0 {
			t.Errorf("%s is rejected: %v %s", claim, err, diagnosticText(r.Diagnostics))
		}
	}
}
