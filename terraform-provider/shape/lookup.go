package shape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Lookup returns the scalar field at a path of attribute names, such as cells[0].cell_id, and its path in the API.
func (f *Field) Lookup(names Path) (*Field, Path, error) {
	var at Path
	for i, name := range names {
		switch {
		case f.Kind == Object:
			j := slices.IndexFunc(f.Fields, func(c *Field) bool { return c.Name == name })
			if j < 0 {
				return nil, nil, fmt.Errorf("there is no %s: %s", names[:i+1], f.nameFields())
			}
			f = f.Fields[j]
			at = append(at, f.JSON)
			continue
		case f.Kind == Map:
			at = append(at, name)
		case f.Kind == List && strings.HasPrefix(name, "["):
			at = append(at, name)
		default:
			return nil, nil, fmt.Errorf("there is no %s", names[:i+1])
		}
		f = f.Element
	}
	switch f.Kind {
	case Object:
		return nil, nil, fmt.Errorf("%s is an object: %s", names, f.nameFields())
	case List, Set, Map:
		return nil, nil, fmt.Errorf("%s has several values: name one of them, such as %s[0]", names, names)
	default:
		return f, at, nil
	}
}

func (f *Field) nameFields() string {
	names := make([]string, len(f.Fields))
	for i, c := range f.Fields {
		names[i] = c.Name
	}
	return "name one of " + strings.Join(names, ", ")
}

// Find returns the text of a scalar in JSON. ok is false if there is none.
func (p Path) Find(in any) (text string, ok bool) {
	for _, name := range p {
		index, err := strconv.Atoi(strings.Trim(name, "[]"))
		switch list, isList := in.([]any); {
		case !isList:
			in = asMap(in)[name]
		case err != nil || index < 0 || index >= len(list):
			return "", false
		default:
			in = list[index]
		}
	}
	if in == nil {
		return "", false
	}
	return fmt.Sprint(in), true
}
