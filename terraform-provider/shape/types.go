package shape

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

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
