package shape

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// SetsSomething rejects nested objects in which no attribute is set. Terraform drops the attributes of nested objects that a schema does
// not have, without an error. So such an object usually is one whose attributes are all misspelled, and would select everything.
type SetsSomething struct{}

// Description says what the value must be.
func (SetsSomething) Description(context.Context) string { return "at least one attribute must be set" }

// MarkdownDescription returns the Description.
func (r SetsSomething) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

// ValidateObject rejects an object in which all attributes are null. An object without attributes has nothing to set. An unknown
// attribute is set.
func (SetsSomething) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	values := req.ConfigValue.Attributes()
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || len(values) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(values))
	if slices.ContainsFunc(names, func(name string) bool { return !isNull(values[name]) }) {
		return
	}
	text := fmt.Sprintf("%s sets none of its attributes. Terraform ignores names in it that do not exist, such as those of YAML. It has %s. ",
		req.Path, strings.Join(names, ", "))
	if slices.Equal(names, []string{matchExpressions, matchLabels}) {
		text += "To select everything, write { match_labels = {} }. To select nothing in particular, leave it out."
	} else {
		text += "Set one of them, or leave it out."
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Nothing is set", text)
}

func isNull(v attr.Value) bool { return v == nil || v.IsNull() }

// The attributes of selectors.
const (
	matchLabels      = "match_labels"
	matchExpressions = "match_expressions"
)

// isSelector reports whether the field selects objects by their labels.
func (f *Field) isSelector() bool {
	return f.Kind == Object && len(f.Fields) == 2 && f.Fields[0].Name == matchExpressions && f.Fields[1].Name == matchLabels
}

// selectsEverything reports whether the JSON of a selector has no requirements.
func selectsEverything(selector any) bool {
	object, ok := selector.(map[string]any)
	for _, v := range object {
		ok = ok && len(asMap(v)) == 0 && len(asList(v)) == 0
	}
	return ok
}

// NullElement is an element of a map, list or set that is null. An attribute that is null is absent, but the API has no absent elements: an
// object without the element means something else, such as a selector without one of its labels, which selects more pods.
type NullElement struct {
	// Attribute is the path of the element as the protocol has it; that of the set if it is an element of a set.
	Attribute *tftypes.AttributePath
	// Text names it in a configuration: selector.match_labels["tier"], or An element of operations.
	Text string
}

// NullElements returns the null elements at any depth of a value, sorted by path. Unknown elements are not null.
func NullElements(v tftypes.Value) ([]NullElement, error) {
	var all []NullElement
	err := tftypes.Walk(v, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		_, isAttribute := at.LastStep().(tftypes.AttributeName)
		if v.IsNull() && at.LastStep() != nil && !isAttribute {
			all = append(all, newNullElement(at))
		}
		return true, nil
	})
	slices.SortFunc(all, func(a, b NullElement) int { return cmp.Compare(a.Text, b.Text) })
	return all, err
}

func newNullElement(at *tftypes.AttributePath) NullElement {
	text := path.Empty()
	for i, step := range at.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			text = text.AtName(string(step))
		case tftypes.ElementKeyString:
			text = text.AtMapKey(string(step))
		case tftypes.ElementKeyInt:
			text = text.AtListIndex(int(step))
		case tftypes.ElementKeyValue:
			// Neither the protocol nor a configuration can name an element of a set.
			return NullElement{Attribute: tftypes.NewAttributePathWithSteps(at.Steps()[:i]), Text: "An element of " + text.String()}
		}
	}
	return NullElement{Attribute: at, Text: text.String()}
}
