package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// plain converts a Terraform value of any type to JSON.
func plain(v tftypes.Value) (any, error) {
	t := v.Type()
	switch {
	case !v.IsKnown():
		return nil, errors.New("it is not known yet")
	case v.IsNull():
		return nil, nil
	case t.Is(tftypes.String):
		var s string
		err := v.As(&s)
		return s, err
	case t.Is(tftypes.Bool):
		var b bool
		err := v.As(&b)
		return b, err
	case t.Is(tftypes.Number):
		n := new(big.Float)
		err := v.As(&n)
		return plainNumber(n), err
	case t.Is(tftypes.Object{}), t.Is(tftypes.Map{}):
		return plainObject(v)
	default:
		return plainList(v)
	}
}

// plainNumber formats a number with all its digits.
func plainNumber(n *big.Float) json.Number {
	if n.IsInt() {
		return json.Number(n.Text('f', 0))
	}
	return json.Number(n.Text('g', -1))
}

func plainObject(v tftypes.Value) (any, error) {
	all, object := map[string]tftypes.Value{}, map[string]any{}
	if err := v.As(&all); err != nil {
		return nil, err
	}
	for name, value := range all {
		var err error
		if object[name], err = plain(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return object, nil
}

func plainList(v tftypes.Value) (any, error) {
	var all []tftypes.Value
	if err := v.As(&all); err != nil {
		return nil, err
	}
	list := make([]any, len(all))
	for i, value := range all {
		var err error
		if list[i], err = plain(value); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return list, nil
}

// fromPlain converts JSON to a Terraform value. Objects and arrays become objects and tuples with the types of their elements.
func fromPlain(ctx context.Context, v any) (attr.Value, error) {
	switch v := v.(type) {
	case nil:
		return types.DynamicNull(), nil
	case string:
		return types.StringValue(v), nil
	case bool:
		return types.BoolValue(v), nil
	case json.Number:
		n, _, err := big.ParseFloat(v.String(), 10, 512, big.ToNearestEven)
		if err != nil {
			return nil, err
		}
		return types.NumberValue(n), nil
	case []any:
		values, of := make([]attr.Value, len(v)), make([]attr.Type, len(v))
		for i, element := range v {
			var err error
			if values[i], err = fromPlain(ctx, element); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			of[i] = values[i].Type(ctx)
		}
		return types.TupleValueMust(of, values), nil
	case map[string]any:
		values, of := make(map[string]attr.Value, len(v)), make(map[string]attr.Type, len(v))
		for name, attribute := range v {
			var err error
			if values[name], err = fromPlain(ctx, attribute); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			of[name] = values[name].Type(ctx)
		}
		return types.ObjectValueMust(of, values), nil
	}
	return nil, fmt.Errorf("it is a %T, which JSON does not have", v)
}
