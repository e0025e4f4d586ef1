package shape

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
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
