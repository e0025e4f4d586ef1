// Package shape derives attributes, values and rules of a Terraform resource from a CustomResourceDefinition, so that both always
// agree. The package is pure: it sends no requests to a cluster.
package shape

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Kind is the type of a field's values.
type Kind int

// The kinds of fields.
const (
	String Kind = iota
	// IntOrPercent is a number of pods or a percentage: a string in Terraform, and a number or a string in JSON.
	IntOrPercent
	Int
	Bool
	// Object has fields.
	Object
	// List keeps the order of its elements, Set does not, and Map has string keys.
	List
	Set
	Map
)

// Field is one field of a kind and its Terraform attribute.
type Field struct {
	// JSON is the name in the API, Name the one in Terraform. Elements of lists, sets and maps have none.
	JSON, Name string
	Kind       Kind
	// Fields are the fields of an Object. Element describes the elements of a List, Set or Map.
	Fields  Fields
	Element *Field
	// keys identify the elements of a List. Each element then has its own owners. Without keys the list has one owner, and its order
	// identifies the elements.
	keys elementKeys

	Description string
	Required    bool
	// Atomic is a single value in server-side apply, with one owner.
	Atomic bool
	// Default is the API server's default, as JSON; nil if there is none. Terraform sets it itself, and so owns it, unless
	// UnownedIfUnset is set.
	Default any
	// UnownedIfUnset means that Terraform does not own the field if the configuration does not set it.
	UnownedIfUnset bool
}

// Fields are the fields of an object, sorted by name.
type Fields []*Field

// Parse creates a field from its name and its schema in a CustomResourceDefinition.
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
		f.Kind = IntOrPercent
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
		f.Element, err = Parse("", props.Items.Schema)
		for _, key := range slices.Sorted(slices.Values(props.XListMapKeys)) {
			f.keys = append(f.keys, f.Element.Child(key))
		}
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

func parseFields(props *apiextensionsv1.JSONSchemaProps) (Fields, error) {
	fields := make(Fields, 0, len(props.Properties))
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

// Child returns the field with the given API name; nil if there is none.
func (f *Field) Child(name string) *Field {
	for _, c := range f.Fields {
		if c.JSON == name {
			return c
		}
	}
	return nil
}

// LeaveUnowned sets UnownedIfUnset for the field and all fields in it: Terraform does not own them if the configuration does not set them.
func (f *Field) LeaveUnowned() {
	if f.UnownedIfUnset = true; f.Kind == Object {
		f.Description += " Fields that are not set are left to the defaults of the cluster and to other field managers."
	}
	for _, c := range f.Fields {
		c.LeaveUnowned()
	}
	if f.Element != nil {
		f.Element.LeaveUnowned()
	}
}

// Attribute returns the attribute of a field in an object. If the field has none, it returns the nearest enclosing attribute.
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

// Definition is an API kind, as its CustomResourceDefinition defines it.
type Definition struct {
	Resource    schema.GroupVersionResource
	Kind        schema.GroupVersionKind
	Namespaced  bool
	Description string
	// Spec and Status describe the fields of the spec and of the status.
	Spec, Status *Field

	schema *apiextensionsv1.JSONSchemaProps
}

// Read reads the definition of a kind from a file.
func Read(files fs.FS, name string) (*Definition, error) {
	raw, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	version := crd.Spec.Versions[0]
	group := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
	d := &Definition{
		Resource:   group.WithResource(crd.Spec.Names.Plural),
		Kind:       group.WithKind(crd.Spec.Names.Kind),
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		schema:     version.Schema.OpenAPIV3Schema,
	}
	d.Description = describe("", d.schema)
	for part, field := range map[string]**Field{"spec": &d.Spec, "status": &d.Status} {
		props := d.schema.Properties[part]
		if *field, err = Parse(part, &props); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return d, nil
}
