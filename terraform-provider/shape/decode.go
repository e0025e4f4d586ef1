package shape

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Decode converts JSON, as an API server returns it, to a Terraform value. Missing fields are null, and unknown fields are left
// out.
func (f *Field) Decode(from any) (tftypes.Value, error) {
	t := f.wireType()
	if from == nil {
		return tftypes.NewValue(t, nil), nil
	}
	var value any
	var err error
	switch f.Kind {
	case Object:
		value, err = f.decodeFields(from)
	case Map:
		value, err = f.decodeMap(from)
	case List, Set:
		value, err = f.decodeElements(from)
	default:
		value, err = f.decodeScalar(from)
	}
	if err != nil {
		return tftypes.Value{}, err
	}
	return tftypes.NewValue(t, value), nil
}

func (f *Field) decodeFields(from any) (map[string]tftypes.Value, error) {
	object, ok := from.(map[string]any)
	if !ok {
		return nil, f.typeError(from)
	}
	all := make(map[string]tftypes.Value, len(f.Fields))
	for _, c := range f.Fields {
		var err error
		if all[c.Name], err = c.Decode(object[c.JSON]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.JSON, err)
		}
	}
	return all, nil
}

func (f *Field) decodeMap(from any) (map[string]tftypes.Value, error) {
	object, ok := from.(map[string]any)
	if !ok {
		return nil, f.typeError(from)
	}
	all := make(map[string]tftypes.Value, len(object))
	for key, v := range object {
		var err error
		if all[key], err = f.Element.Decode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return all, nil
}

func (f *Field) decodeElements(from any) ([]tftypes.Value, error) {
	list, ok := from.([]any)
	if !ok {
		return nil, f.typeError(from)
	}
	all := make([]tftypes.Value, len(list))
	for i, v := range list {
		var err error
		if all[i], err = f.Element.Decode(v); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return all, nil
}

func (f *Field) decodeScalar(from any) (any, error) {
	switch v := from.(type) {
	case string:
		if slices.Contains([]Kind{String, IntOrPercent}, f.Kind) {
			return v, nil
		}
	case bool:
		if f.Kind == Bool {
			return v, nil
		}
	case int64:
		return f.decodeNumber(v)
	case float64:
		if v == float64(int64(v)) {
			return f.decodeNumber(int64(v))
		}
	}
	return nil, f.typeError(from)
}

func (f *Field) decodeNumber(v int64) (any, error) {
	switch f.Kind {
	case Int:
		return new(big.Float).SetInt64(v), nil
	case IntOrPercent:
		return strconv.FormatInt(v, 10), nil
	default:
		return nil, f.typeError(v)
	}
}

func (f *Field) typeError(from any) error {
	return fmt.Errorf("the cluster has %v (%T) where this provider expects %s: check that the provider has the version of the installed breakwater-crds",
		from, from, f.Type())
}
