package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// convertArgument converts an untyped value to the type of the field, as Terraform converts a typed one: a number or a bool is accepted
// where the field is a string. It returns an error for a name that the field does not have.
func convertArgument(f *shape.Field, at string, given any) (any, error) {
	switch v := given.(type) {
	case string:
		if f.Kind == shape.String {
			return v, nil
		}
	case json.Number, bool:
		if f.Kind == shape.String {
			return fmt.Sprint(v), nil
		}
	case []any:
		if f.Kind == shape.List {
			return convertElements(f, at, v)
		}
	case map[string]any:
		if f.Kind == shape.Object || f.Kind == shape.Map {
			return convertFields(f, at, v)
		}
	}
	return nil, fmt.Errorf("%s is %s, but must be %s", at, typeName(given), map[shape.Kind]string{
		shape.String: "a text", shape.List: "a list", shape.Map: "an object", shape.Object: "an object",
	}[f.Kind])
}

func typeName(given any) string {
	switch given.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

func convertElements(f *shape.Field, at string, given []any) (any, error) {
	list := make([]any, len(given))
	for i, element := range given {
		var err error
		if list[i], err = convertArgument(f.Element, fmt.Sprintf("%s[%d]", at, i), element); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func convertFields(f *shape.Field, at string, given map[string]any) (any, error) {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, key := f.Element, name
		if f.Kind == shape.Object && given[name] == nil {
			continue // as if it were left out; elements of maps cannot be left out
		}
		if f.Kind == shape.Object {
			i := slices.IndexFunc(f.Fields, func(c *shape.Field) bool { return c.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("%s has no %s: it has %s", at, name, strings.Join(fieldNames(f.Fields), ", "))
			}
			field, key = f.Fields[i], f.Fields[i].JSON
		}
		var err error
		if object[key], err = convertArgument(field, at+"."+name, given[name]); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func fieldNames(fields []*shape.Field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.Name
	}
	return all
}
