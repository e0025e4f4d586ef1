package main

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// limits returns the API server's constraints on a field and its elements, as sentences.
func limits(field *apiextensionsv1.JSONSchemaProps) (all []string) {
	all = append(all, own(field)...)
	if field.Items != nil && field.Items.Schema != nil {
		for _, limit := range own(field.Items.Schema) {
			all = append(all, "Each: "+limit)
		}
	}
	if field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil {
		for _, limit := range own(field.AdditionalProperties.Schema) {
			all = append(all, "Each value: "+limit)
		}
	}
	return all
}

func own(field *apiextensionsv1.JSONSchemaProps) (all []string) {
	add := func(ok bool, format string, arguments ...any) {
		if ok {
			all = append(all, fmt.Sprintf(format, arguments...))
		}
	}
	add(field.Default != nil, "Default `%s`.", value(field.Default))
	var words []string
	for i := range field.Enum {
		words = append(words, "`"+value(&field.Enum[i])+"`")
	}
	add(len(words) > 0, "One of %s.", strings.Join(words, ", "))
	add(field.Minimum != nil && field.Maximum != nil, "From %v to %v.", number(field.Minimum), number(field.Maximum))
	add(field.Minimum != nil && field.Maximum == nil, "At least %v.", number(field.Minimum))
	add(field.Minimum == nil && field.Maximum != nil, "At most %v.", number(field.Maximum))
	add(field.MinLength != nil && *field.MinLength > 0, "At least %s.", several(field.MinLength, "character"))
	add(field.MaxLength != nil, "At most %s.", several(field.MaxLength, "character"))
	add(field.Pattern != "", "It matches `%s`.", strings.ReplaceAll(field.Pattern, "|", `\|`))
	add(field.MinItems != nil && *field.MinItems > 0, "At least %s.", several(field.MinItems, "item"))
	add(field.MaxItems != nil, "At most %s.", several(field.MaxItems, "item"))
	add(field.MinProperties != nil, "At least %s.", several(field.MinProperties, "entry"))
	add(field.MaxProperties != nil, "At most %s.", several(field.MaxProperties, "entry"))
	add(field.XListType != nil && *field.XListType == "set", "No item twice.")
	add(len(field.XListMapKeys) > 0, "No two items with the same %s.", strings.Join(field.XListMapKeys, " and "))
	return append(all, rules(field)...)
}

// rules returns the CEL rules of a field: their messages, or the expression if a rule has no message.
func rules(field *apiextensionsv1.JSONSchemaProps) (all []string) {
	for _, rule := range field.XValidations {
		words := cell(rule.Message)
		if words == "" {
			words = "`" + strings.ReplaceAll(rule.Rule, "|", `\|`) + "`"
		}
		all = append(all, "**must**: "+strings.TrimSuffix(words, ".")+".")
	}
	return all
}

func value(raw *apiextensionsv1.JSON) string {
	if raw == nil {
		return ""
	}
	return strings.Trim(string(raw.Raw), `"`)
}

func number(n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", *n)
}

func several(n *int64, noun string) string {
	if n == nil {
		return ""
	}
	if *n != 1 {
		noun = strings.ReplaceAll(noun+"s", "ys", "ies")
	}
	return fmt.Sprintf("%d %s", *n, noun)
}
