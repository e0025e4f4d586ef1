package shape

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Path leads to a field of an object, by its names in the API; elements of lists are "[2]".
type Path []string

// String is the path as an apiserver writes it: spec.floor.bands[2].minAvailable.
func (p Path) String() string {
	return strings.ReplaceAll(strings.Join(p, "."), ".[", "[")
}

func (p Path) to(name string) Path { return append(slices.Clone(p), name) }

// Encoded is what Encode makes.
type Encoded struct {
	// Value is JSON as of an unstructured object; nil is nothing.
	Value any
	// Unknown leads to what will only be known when it is applied. It is not in Value.
	Unknown []Path
}

// Encode turns a value of Terraform, which is found at a path, into JSON.
func (f *Field) Encode(at Path, v tftypes.Value) (Encoded, error) {
	if !v.IsKnown() || f.Kind != Object && !v.IsFullyKnown() && f.Element != nil && f.Element.Kind != Object {
		return Encoded{Unknown: []Path{at}}, nil
	}
	if v.IsNull() {
		return Encoded{}, nil
	}
	switch f.Kind {
	case Object:
		return f.encodeFields(at, v)
	case Map:
		return f.encodeMap(at, v)
	case List, Set:
		return f.encodeElements(at, v)
	default:
		return f.encodeScalar(v)
	}
}

func (f *Field) encodeFields(at Path, v tftypes.Value) (Encoded, error) {
	attributes := map[string]tftypes.Value{}
	if err := v.As(&attributes); err != nil {
		return Encoded{}, err
	}
	return f.EncodeFields(at, attributes)
}

// EncodeFields encodes an object whose attributes may be among others.
func (f *Field) EncodeFields(at Path, attributes map[string]tftypes.Value) (Encoded, error) {
	object, all := map[string]any{}, Encoded{}
	for _, c := range f.Fields {
		attribute, ok := attributes[c.Name]
		if !ok {
			continue
		}
		e, err := c.Encode(at.to(c.JSON), attribute)
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
		e, err := f.Element.Encode(at.to(key), value)
		if err != nil {
			return Encoded{}, fmt.Errorf("%s: %w", key, err)
		}
		if e.Value != nil {
			object[key] = e.Value
		}
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
		e, err := f.Element.Encode(at.to(fmt.Sprintf("[%d]", i)), value)
		if err != nil {
			return Encoded{}, fmt.Errorf("[%d]: %w", i, err)
		}
		list = append(list, e.Value)
		all.Unknown = append(all.Unknown, e.Unknown...)
	}
	all.Value = list
	return all, nil
}

func (f *Field) encodeScalar(v tftypes.Value) (Encoded, error) {
	switch f.Kind {
	case Bool:
		var b bool
		err := v.As(&b)
		return Encoded{Value: b}, err
	case Int:
		n := new(big.Float)
		if err := v.As(&n); err != nil {
			return Encoded{}, err
		}
		i, _ := n.Int64()
		return Encoded{Value: i}, nil
	}
	var s string
	if err := v.As(&s); err != nil {
		return Encoded{}, err
	}
	if f.Kind == Share {
		// Only what is written back the same way is taken for a number: "007" is refused as what it is.
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
			return Encoded{Value: n}, nil
		}
	}
	return Encoded{Value: s}, nil
}
