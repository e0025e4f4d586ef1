// Package validate has the rules for texts of a configuration.
package validate

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// IsName reports whether a text can be the name of an object.
func IsName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// IsNamespace reports whether a text can be the name of a namespace.
func IsNamespace(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }

// Name returns the rule for names of objects.
func Name() validator.String {
	return stringvalidator.All(stringvalidator.LengthBetween(1, 253),
		stringvalidator.RegexMatches(objectName, "must consist of lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"))
}

// Namespace returns the rule for names of namespaces.
func Namespace() validator.String {
	return stringvalidator.All(stringvalidator.LengthBetween(1, 63),
		stringvalidator.RegexMatches(namespaceName, "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit"))
}

// Selector returns the rule for label selectors.
func Selector() validator.String {
	return rule{"a label selector in the syntax of kubectl", func(text string) (summary, detail string) {
		if _, err := labels.Parse(text); err != nil {
			return "Not a label selector", fmt.Sprintf("The selector is invalid: %v. Use the syntax of kubectl's --selector, such as app=web,tier in (front, back),!legacy.", err)
		}
		return "", ""
	}}
}

// Duration returns the rule for positive durations.
func Duration() validator.String {
	const description = "a duration, such as 90s or 5m"
	return rule{description, func(text string) (summary, detail string) {
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			return "Not a duration", fmt.Sprintf("%q must be %s.", text, description)
		}
		return "", ""
	}}
}

// rule is a rule for known texts.
type rule struct {
	description string
	// check returns what is wrong with a text. The summary is empty if it is valid.
	check func(text string) (summary, detail string)
}

// Description says what the value must be.
func (r rule) Description(context.Context) string { return r.description }

// MarkdownDescription returns the Description.
func (r rule) MarkdownDescription(context.Context) string { return r.description }

// ValidateString adds an error for an invalid text.
func (r rule) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if summary, detail := r.check(req.ConfigValue.ValueString()); summary != "" {
		resp.Diagnostics.AddAttributeError(req.Path, summary, detail)
	}
}
