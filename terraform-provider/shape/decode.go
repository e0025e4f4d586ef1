package shape

import (
	"context"
	"fmt"
	"math/big"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Decode converts JSON, with whole numbers as int64, to a Terraform value. Missing fields are null, and unknown fields are left
// out. A selector of everything, {}, becomes { match_labels = {} }, because a configuration cannot contain it otherwise.
func (f *Field) Decode(from any) (tftypes.Value, error) {
	t := f.Type().TerraformType(context.Background())
	if from == nil {
		return tftypes.NewValue(t, nil), nil
	}
	value, err := f.decode(from)
	if err != nil {
		return tftypes.Value{}, err
	}
	return tftypes.NewValue(t, value), nil
}

func (f *Field) decode(from any) (any, error) {
	switch v := from.(type) {
	case map[string]any:
		switch f.Kind {
		case Object:
			if f.isSelector() && len(v) == 0 {
				v = map[string]any{f.Fields[1].JSON: map[string]any{}}
			}
			return f.Fields.decode(v)
		case Map:
			return f.decodeMap(v)
		}
	case []any:
		if f.Kind == List || f.Kind == Set {
			return f.decodeElements(v)
		}
	default:
		if scalar := f.Kind.decode(from); scalar != nil {
			return scalar, nil
		}
	}
	return nil, fmt.Errorf("the cluster has %v (%T) where this provider expects %s: check that the provider has the version of the installed breakwater-crds",
		from, from, f.Type())
}

func (fs Fields) decode(object map[string]any) (map[string]tftypes.Value, error) {
	all := make(map[string]tftypes.Value, len(fs))
	for _, c := range fs {
		var err error
		if all[c.Name], err = c.Decode(object[c.JSON]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.JSON, err)
		}
	}
	return all, nil
}

func (f *Field) decodeMap(object map[string]any) (map[string]tftypes.Value, error) {
	all := make(map[string]tftypes.Value, len(object))
	for key, v := range object {
		var err error
		if all[key], err = f.Element.Decode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return all, nil
}

func (f *Field) decodeElements(list []any) ([]tftypes.Value, error) {
	all := make([]tftypes.Value, len(list))
	for i, v := range list {
		var err error
		if all[i], err = f.Element.Decode(v); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return all, nil
}

// decode returns the value of a scalar; nil if it is not of this kind.
func (k Kind) decode(from any) any {
	switch v := from.(type) {
	case string:
		if k == String || k == IntOrPercent {
			return v
		}
	case bool:
		if k == Bool {
			return v
		}
	case int64:
		switch k {
		case Int:
			return new(big.Float).SetInt64(v)
		case IntOrPercent:
			return strconv.FormatInt(v, 10)
		}
	}
	return nil
}

// Type returns the Terraform type of the field's values.
func (f *Field) Type() attr.Type {
	switch f.Kind {
	case Int:
		return types.NumberType
	case Bool:
		return types.BoolType
	case Object:
		return types.ObjectType{AttrTypes: f.Fields.types()}
	case List:
		return types.ListType{ElemType: f.Element.Type()}
	case Set:
		return types.SetType{ElemType: f.Element.Type()}
	case Map:
		return types.MapType{ElemType: f.Element.Type()}
	default:
		return types.StringType
	}
}

func (fs Fields) types() map[string]attr.Type {
	all := make(map[string]attr.Type, len(fs))
	for _, c := range fs {
		all[c.Name] = c.Type()
	}
	return all
}

// Value is Decode with a framework value as result.
func (f *Field) Value(from any) (attr.Value, error) {
	decoded, err := f.Decode(from)
	if err != nil {
		return nil, err
	}
	return f.Type().ValueFromTerraform(context.Background(), decoded)
}
