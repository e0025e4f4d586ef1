package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/labels"
)

// The descriptions of the attributes that select objects of a kind.
const (
	selectorText = "Only objects with these labels, in the syntax of kubectl's `--selector`: `app=web,tier!=cache` or `app in (web, " +
		"api),!legacy`. Default: all."
	namespaceText = "Only objects in this namespace of the core cluster. Default: all namespaces."
)

func nameRule() validator.String {
	return stringvalidator.All(stringvalidator.LengthBetween(1, 253),
		stringvalidator.RegexMatches(objectName, "must consist of lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"))
}

func namespaceRule() validator.String {
	return stringvalidator.All(stringvalidator.LengthBetween(1, 63),
		stringvalidator.RegexMatches(namespaceName, "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit"))
}

// selectorRule validates the syntax of label selectors.
type selectorRule struct{}

// Description says what the value must be.
func (selectorRule) Description(context.Context) string {
	return "a label selector in the syntax of kubectl"
}

// MarkdownDescription returns the Description.
func (r selectorRule) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

// ValidateString rejects selectors that the API server would reject.
func (selectorRule) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := labels.Parse(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a label selector",
			sentence(err.Error())+" Use the syntax of kubectl's --selector, such as app=web,tier in (front, back),!legacy.")
	}
}

// durationRule validates the syntax of durations.
type durationRule struct{}

// Description says what the value must be.
func (durationRule) Description(context.Context) string { return "a duration, such as 90s or 5m" }

// MarkdownDescription returns the Description.
func (r durationRule) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

// ValidateString rejects values that are not a positive duration.
func (r durationRule) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if d, err := time.ParseDuration(req.ConfigValue.ValueString()); err != nil || d <= 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a duration", fmt.Sprintf("%q must be %s.", req.ConfigValue.ValueString(), r.Description(ctx)))
	}
}
