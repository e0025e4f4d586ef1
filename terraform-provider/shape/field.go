// Package shape derives what Terraform sees of a kind from its CustomResourceDefinition: attributes, values and rules, so that
// both always say the same. It takes values and returns values; nothing here talks to a cluster.
package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Kind of a field: what its values are.
type Kind int

// The kinds of fields.
const (
	String Kind = iota
	// Share is a number of pods or a percentage: a string in Terraform, and a number or a string in JSON.
	Share
	Int
	Bool
	// Object has fields of its own.
	Object
	// List keeps the order of its elements, Set does not, Map has strings for keys.
	List
	Set
	Map
)

// Field is one field of a kind, and what its attribute is called in Terraform.
type Field struct {
	// JSON is the name in the API, Name the one in Terraform; elements of lists, sets and maps have none.
	JSON, Name string
	Kind       Kind
	// Fields are those of an Object, by name; Element is what a List, Set or Map holds.
	Fields  []*Field
	Element *Field
	// Keys are the fields, by their names in the API, that tell the elements of a List apart, each of which then has owners of its
	// own. Without them the list has one owner, and its elements are told apart by their order.
	Keys []string

	Description string
	Required    bool
	// Atomic is one value to server-side apply: it has one owner.
	Atomic bool
	// Default is what the apiserver fills in, as JSON; nil is nothing. Terraform fills it in by itself, and so owns it, unless
	// Unsaid.
	Default any
	// Unsaid fields are nobody's when the configuration does not mention them.
	Unsaid bool
}

// Parse reads the field of that name from the schema of a CustomResourceDefinition.
func Parse(name string, props *apiextensionsv1.JSONSchemaProps) (*Field, error) {
	f := &Field{JSON: name, Name: snake(name), Description: describe(name, props), Atomic: isAtomic(props)}
	if props.Default != nil {
		if err := json.Unmarshal(props.Default.Raw, &f.Default); err != nil {
			return nil, fmt.Errorf("the default of %s: %w", name, err)
		}
	}
	var err error
	switch {
	case props.XIntOrString:
		f.Kind = Share
	case props.Type == "string":
		f.Kind = String
	case props.Type == "integer":
		f.Kind = Int
	case props.Type == "boolean":
		f.Kind = Bool
	case props.Type == "array":
		f.Kind = List
		if props.XListType != nil && *props.XListType == "set" {
			f.Kind = Set
		}
		f.Keys = slices.Sorted(slices.Values(props.XListMapKeys))
		f.Element, err = Parse("", props.Items.Schema)
	case props.Type == "object" && props.AdditionalProperties != nil:
		f.Kind = Map
		f.Element, err = Parse("", props.AdditionalProperties.Schema)
	case props.Type == "object":
		f.Kind = Object
		f.Fields, err = parseFields(props)
	default:
		err = fmt.Errorf("field %q has type %q, which has no attribute in Terraform", name, props.Type)
	}
	return f, err
}

func parseFields(props *apiextensionsv1.JSONSchemaProps) ([]*Field, error) {
	fields := make([]*Field, 0, len(props.Properties))
	for _, name := range slices.Sorted(maps.Keys(props.Properties)) {
		child := props.Properties[name]
		f, err := Parse(name, &child)
		if err != nil {
			return nil, err
		}
		f.Required = slices.Contains(props.Required, name)
		fields = append(fields, f)
	}
	return fields, nil
}

func isAtomic(props *apiextensionsv1.JSONSchemaProps) bool {
	if props.Type == "array" {
		return props.XListType == nil || *props.XListType == "atomic"
	}
	return props.XMapType != nil && *props.XMapType == "atomic"
}

// Child returns the field of that name in the API.
func (f *Field) Child(name string) *Field {
	for _, c := range f.Fields {
		if c.JSON == name {
			return c
		}
	}
	return nil
}

// Leave marks the field, and all below it, as nobody's when the configuration does not mention them.
func (f *Field) Leave() {
	if f.Unsaid = true; f.Kind == Object {
		f.Description += " What is not set here is left to the defaults of the cluster, and to others."
	}
	for _, c := range f.Fields {
		c.Leave()
	}
	if f.Element != nil {
		f.Element.Leave()
	}
}

// Attribute leads from the attribute of an object to that of a field in it; where that has none, to the nearest one around it.
func (f *Field) Attribute(of path.Path, to Path) path.Path {
	if len(to) == 0 {
		return of
	}
	switch f.Kind {
	case Object:
		if c := f.Child(to[0]); c != nil {
			return c.Attribute(of.AtName(c.Name), to[1:])
		}
	case Map:
		return of.AtMapKey(to[0])
	case List:
		if i, err := strconv.Atoi(strings.Trim(to[0], "[]")); err == nil {
			return f.Element.Attribute(of.AtListIndex(i), to[1:])
		}
	}
	return of
}
