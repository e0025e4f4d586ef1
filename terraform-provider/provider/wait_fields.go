package provider

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// fieldExpectation is a field to wait for.
type fieldExpectation struct {
	// part is spec or status, and at is the path in it.
	part string
	at   shape.Path
	// want matches the text of the value completely.
	want *regexp.Regexp
}

// expectation parses an attribute path, such as status.cells[0].cell_id, and a regular expression for its value, or "*".
func (k *kind) expectation(name, want string) (*fieldExpectation, error) {
	names, err := shape.ParsePath(name)
	if err != nil {
		return nil, err
	}
	e, in := &fieldExpectation{part: "spec"}, k.Spec
	if len(names) > 0 && names[0] == "status" {
		e.part, in, names = "status", k.Status, names[1:]
	}
	if _, e.at, err = in.Lookup(names); err != nil {
		return nil, err
	}
	if want == "*" {
		want = "(?s).*"
	}
	if e.want, err = regexp.Compile("^(?:" + want + ")$"); err != nil {
		return nil, fmt.Errorf("%q is not a regular expression: %w", want, err)
	}
	return e, nil
}

// validateWait reports fields to wait for that do not exist, and values that are not regular expressions.
func (k *kind) validateWait(ctx context.Context, config *tfsdk.Config, d *diag.Diagnostics) {
	at := path.Root("wait").AtName("fields")
	fields := map[string]types.String{}
	var all types.Map
	d.Append(config.GetAttribute(ctx, at, &all)...)
	if all.IsNull() || all.IsUnknown() {
		return
	}
	d.Append(all.ElementsAs(ctx, &fields, false)...)
	for name, want := range fields {
		text := want.ValueString()
		if want.IsUnknown() {
			text = "*"
		}
		if _, err := k.expectation(name, text); err != nil {
			d.AddAttributeError(at.AtMapKey(name), "Invalid field to wait for", fmt.Sprintf("%q: %s.", name, err))
		}
	}
}

// unmetFields says which fields do not have the expected values yet, with their present values.
func (k *kind) unmetFields(fields map[string]string, live *unstructured.Unstructured) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e, err := k.expectation(name, fields[name])
		if err != nil {
			all = append(all, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		switch text, ok := e.at.Find(live.Object[e.part]); {
		case !ok:
			all = append(all, fmt.Sprintf("%s is not set, want %s", name, describeWant(fields[name])))
		case !e.want.MatchString(text):
			all = append(all, fmt.Sprintf("%s is %q, want %s", name, text, describeWant(fields[name])))
		}
	}
	return all
}

func describeWant(want string) string {
	if want == "*" {
		return "any value"
	}
	if regexp.QuoteMeta(want) != want {
		return "a match of " + want
	}
	return fmt.Sprintf("%q", want)
}
