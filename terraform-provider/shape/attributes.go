package shape

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	source "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/numberdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Attributes returns the resource attributes.
func (fs Fields) Attributes() map[string]schema.Attribute {
	all := make(map[string]schema.Attribute, len(fs))
	for _, c := range fs {
		all[c.Name] = c.attribute()
	}
	return all
}

// attribute returns a resource attribute. Terraform sets the API server's defaults itself, so that a plan shows them and
// Terraform detects drift from them.
func (f *Field) attribute() schema.Attribute {
	filled := f.defaultValue()
	var (
		text               = f.Description
		required, computed = f.Required && filled == nil, filled != nil
		optional           = !required
	)
	switch f.Kind {
	case Int:
		// The framework reports a fraction in an Int64Attribute as a fault of the provider.
		a := schema.NumberAttribute{MarkdownDescription: text, Required: required, Optional: optional, Computed: computed}
		if computed {
			a.Default = numberdefault.StaticBigFloat(filled.(types.Number).ValueBigFloat())
		}
		return a
	case Bool:
		a := schema.BoolAttribute{MarkdownDescription: text, Required: required, Optional: optional, Computed: computed}
		if computed {
			a.Default = booldefault.StaticBool(filled.(types.Bool).ValueBool())
		}
		return a
	case Object:
		a := schema.SingleNestedAttribute{MarkdownDescription: text, Required: required, Optional: optional, Computed: computed,
			Validators: []validator.Object{SetsSomething{}}}
		if computed {
			a.Default = objectdefault.StaticValue(filled.(types.Object))
		}
		a.Attributes = f.Fields.Attributes()
		return a
	case List:
		return f.listAttribute(text, required, optional, filled)
	case Set:
		a := schema.SetAttribute{MarkdownDescription: text, ElementType: f.Element.Type(), Required: required, Optional: optional, Computed: computed}
		if computed {
			a.Default = setdefault.StaticValue(filled.(types.Set))
		}
		return a
	case Map:
		return schema.MapAttribute{MarkdownDescription: text, ElementType: f.Element.Type(), Required: required, Optional: optional}
	default:
		a := schema.StringAttribute{MarkdownDescription: text, Required: required, Optional: optional, Computed: computed}
		if computed {
			a.Default = stringdefault.StaticString(filled.(types.String).ValueString())
		}
		return a
	}
}

func (f *Field) listAttribute(text string, required, optional bool, filled attr.Value) schema.Attribute {
	if f.Element.Kind != Object {
		return schema.ListAttribute{MarkdownDescription: text, ElementType: f.Element.Type(), Required: required, Optional: optional}
	}
	a := schema.ListNestedAttribute{MarkdownDescription: text, Required: required, Optional: optional, Computed: filled != nil}
	if filled != nil {
		a.Default = listdefault.StaticValue(filled.(types.List))
	}
	a.NestedObject.Validators = []validator.Object{SetsSomething{}}
	a.NestedObject.Attributes = f.Element.Fields.Attributes()
	return a
}

// defaultValue returns the default that Terraform sets if the configuration has no value; nil if there is none.
func (f *Field) defaultValue() attr.Value {
	if f.Default == nil || f.UnownedIfUnset {
		return nil
	}
	v, err := f.Value(f.withDefaults(f.Default))
	if err != nil {
		panic("shape: the default of " + f.JSON + " is not of its type: " + err.Error())
	}
	return v
}

// WithDefaults adds the defaults that Terraform sets for missing fields, at any depth, to the JSON of an object.
func (fs Fields) WithDefaults(object map[string]any) map[string]any {
	all := make(map[string]any, len(object))
	for _, c := range fs {
		v, given := object[c.JSON]
		if !given && !c.UnownedIfUnset {
			v = c.Default
		}
		if v != nil {
			all[c.JSON] = c.withDefaults(v)
		}
	}
	return all
}

// withDefaults is WithDefaults for a value of any kind.
func (f *Field) withDefaults(value any) any {
	switch {
	case f.Kind == Object:
		return f.Fields.WithDefaults(asMap(value))
	case f.Kind == List && f.Element.Kind == Object:
		list := make([]any, len(asList(value)))
		for i, v := range asList(value) {
			list[i] = f.Element.withDefaults(v)
		}
		return list
	default:
		return value
	}
}

// SourceAttributes returns the data source attributes. All are computed.
func (fs Fields) SourceAttributes() map[string]source.Attribute {
	all := make(map[string]source.Attribute, len(fs))
	for _, c := range fs {
		all[c.Name] = c.sourceAttribute()
	}
	return all
}

func (f *Field) sourceAttribute() source.Attribute {
	text := f.Description
	switch {
	case f.Kind == Int:
		return source.NumberAttribute{MarkdownDescription: text, Computed: true}
	case f.Kind == Bool:
		return source.BoolAttribute{MarkdownDescription: text, Computed: true}
	case f.Kind == Object:
		return source.SingleNestedAttribute{MarkdownDescription: text, Computed: true, Attributes: f.Fields.SourceAttributes()}
	case f.Kind == List && f.Element.Kind == Object:
		return source.ListNestedAttribute{MarkdownDescription: text, Computed: true,
			NestedObject: source.NestedAttributeObject{Attributes: f.Element.Fields.SourceAttributes()}}
	case f.Kind == List:
		return source.ListAttribute{MarkdownDescription: text, Computed: true, ElementType: f.Element.Type()}
	case f.Kind == Set:
		return source.SetAttribute{MarkdownDescription: text, Computed: true, ElementType: f.Element.Type()}
	case f.Kind == Map:
		return source.MapAttribute{MarkdownDescription: text, Computed: true, ElementType: f.Element.Type()}
	default:
		return source.StringAttribute{MarkdownDescription: text, Computed: true}
	}
}
