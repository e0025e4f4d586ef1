package shape

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Path is the path of a field in an object, with the names of the API. List elements are "[2]".
type Path []string

// String returns the path in the API server's notation: spec.floor.bands[2].minAvailable.
func (p Path) String() string {
	return strings.ReplaceAll(strings.Join(p, "."), ".[", "[")
}

func (p Path) child(name string) Path { return append(slices.Clone(p), name) }

// Encoded is the result of Encode.
type Encoded struct {
	// Value is JSON as in an unstructured object; nil if there is no value.
	Value any
	// Unknown lists the paths of values that only become known during the apply. They are not in Value.
	Unknown []Path
}

// Encode converts the Terraform value of the field at a path to JSON. It is the inverse of Decode: the selector { match_labels = {} } becomes
// {}, and so does not differ from the object of a client that writes the selector of everything as usual.
func (f *Field) Encode(at Path, v tftypes.Value) (Encoded, error) {
	if !v.IsKnown() || f.Kind != Object && !v.IsFullyKnown() && f.Element != nil && f.Element.Kind != Object {
		return Encoded{Unknown: []Path{at}}, nil
	}
	if v.IsNull() {
		return Encoded{}, nil
	}
	switch f.Kind {
	case Object:
		attributes := map[string]tftypes.Value{}
		if err := v.As(&attributes); err != nil {
			return Encoded{}, err
		}
		e, err := f.Fields.Encode(at, attributes)
		if object := asMap(e.Value); f.isSelector() && len(e.Unknown) == 0 && len(object) == 1 && selectsEverything(object) && object[f.Fields[1].JSON] != nil {
			e.Value = map[string]any{}
		}
		return e, err
	case Map:
		return f.encodeMap(at, v)
	case List, Set:
		return f.encodeElements(at, v)
	default:
		return f.Kind.encode(v)
	}
}

// Encode encodes an object from a map that may contain other attributes too.
func (fs Fields) Encode(at Path, attributes map[string]tftypes.Value) (Encoded, error) {
	object, all := map[string]any{}, Encoded{}
	for _, c := range fs {
		attribute, ok := attributes[c.Name]
		if !ok {
			continue
		}
		e, err := c.Encode(at.child(c.JSON), attribute)
		if err != nil {
			return Encoded{}, fmt.Errorf("%s: %w", c.Name, err)
		}
		if e.Value != nil {
			object[c.JSON] = e.Value
		}
		all.Unknown = append(all.Unknown, e.Unknown...)
	}
	all.Value = object
	return all, nil
}

func (f *Field) encodeMap(at Path, v tftypes.Value) (Encoded, error) {
	values, object := map[string]tftypes.Value{}, map[string]any{}
	if err := v.As(&values); err != nil {
		return Encoded{}, err
	}
	for key, value := range values {
		e, err := f.Element.Encode(at.child(key), value)
		if err != nil {
			return Encoded{}, fmt.Errorf("%s: %w", key, err)
		}
		if e.Value == nil {
			// NullElements finds these first, with a message for users. Without the element, a selector would select more.
			return Encoded{}, fmt.Errorf("%s: it is null", key)
		}
		object[key] = e.Value
	}
	return Encoded{Value: object}, nil
}

func (f *Field) encodeElements(at Path, v tftypes.Value) (Encoded, error) {
	var values []tftypes.Value
	if err := v.As(&values); err != nil {
		return Encoded{}, err
	}
	list, all := make([]any, 0, len(values)), Encoded{}
	for i, value := range values {
		if !value.IsKnown() {
			return Encoded{Unknown: []Path{at}}, nil
		}
		e, err := f.Element.Encode(at.child(fmt.Sprintf("[%d]", i)), value)
		if err != nil {
			return Encoded{}, fmt.Errorf("[%d]: %w", i, err)
		}
		list = append(list, e.Value)
		all.Unknown = append(all.Unknown, e.Unknown...)
	}
	all.Value = list
	return all, nil
}

// encode encodes a scalar. A number that is no int32, as which the API stores it, becomes a float64, which NotWhole finds and no API server accepts.
func (k Kind) encode(v tftypes.Value) (Encoded, error) {
	switch k {
	case Bool:
		var b bool
		err := v.As(&b)
		return Encoded{Value: b}, err
	case Int:
		n := new(big.Float)
		if err := v.As(&n); err != nil {
			return Encoded{}, err
		}
		if i, accuracy := n.Int64(); accuracy == big.Exact && i == int64(int32(i)) { //nolint:gosec // compares what is lost
			return Encoded{Value: i}, nil
		}
		inexact, _ := n.Float64()
		return Encoded{Value: inexact}, nil
	}
	var s string
	if err := v.As(&s); err != nil {
		return Encoded{}, err
	}
	if k == IntOrPercent {
		// Only a text that is the canonical form of a number becomes one. "007" stays a string, and the rules reject it.
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
			return Encoded{Value: n}, nil
		}
	}
	return Encoded{Value: s}, nil
}

// NotWhole returns the paths of the numbers in an encoded value that have a fraction, or are too large for the API.
func NotWhole(at Path, value any) (paths []Path) {
	switch v := value.(type) {
	case float64:
		return []Path{at}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			paths = append(paths, NotWhole(at.child(name), v[name])...)
		}
	case []any:
		for i := range v {
			paths = append(paths, NotWhole(at.child(fmt.Sprintf("[%d]", i)), v[i])...)
		}
	}
	return paths
}
