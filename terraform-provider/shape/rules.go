package shape

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Rules are the schema and the CEL rules of a kind. They run the API server's code, and so return the same messages.
type Rules struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

// Rules compiles the rules of the kind. This is slow, so callers keep the result.
func (d *Definition) Rules() (*Rules, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(d.schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	r := &Rules{structural: structural, cel: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	if r.schema, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	return r, nil
}

// Check returns the errors that an API server would return for an object, and for its update if old is set. It reports no error
// for unknown values, and evaluates no rule that depends on them.
func (r *Rules) Check(ctx context.Context, object, old map[string]any, unknown []Path) field.ErrorList {
	object = runtime.DeepCopyJSON(object)
	defaulting.Default(object, r.structural)
	all := validation.ValidateCustomResource(nil, object, r.schema)
	all = append(all, listtype.ValidateListSetsAndMaps(nil, r.structural, object)...)
	all = slices.DeleteFunc(all, func(e *field.Error) bool { return isOfUnknownValue(e, unknown) })
	if slices.ContainsFunc(all, isTypeError) {
		return all
	}
	asked, structural := r.cel, r.structural
	if len(unknown) > 0 {
		structural = structural.DeepCopy()
		for _, p := range unknown {
			dropRules(structural, p)
		}
		asked = cel.NewValidator(structural, true, celconfig.PerCallLimit)
	}
	var before any
	if old != nil {
		before = runtime.DeepCopyJSON(old)
		defaulting.Default(before, r.structural)
	}
	broken, _ := asked.Validate(ctx, nil, structural, object, before, celconfig.RuntimeCELCostBudget)
	return append(all, broken...)
}

// isTypeError reports whether the error prevents the evaluation of rules. The API server evaluates none in that case
// either.
func isTypeError(e *field.Error) bool {
	switch e.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// isOfUnknownValue reports whether an error exists only because a value is unknown: the value is missing, or two list elements are
// equal without it.
func isOfUnknownValue(e *field.Error, unknown []Path) bool {
	switch e.Type {
	case field.ErrorTypeRequired:
		return slices.ContainsFunc(unknown, func(p Path) bool { return p.String() == e.Field })
	case field.ErrorTypeDuplicate:
		list := e.Field[:max(0, strings.LastIndexByte(e.Field, '['))]
		return slices.ContainsFunc(unknown, func(p Path) bool { return len(p) > 1 && p[:len(p)-2].String() == list })
	default:
		return false
	}
}

// dropRules removes the rules from all schemas on the path to an unknown value.
func dropRules(s *structuralschema.Structural, to Path) {
	s.XValidations = nil
	if len(to) == 0 {
		return
	}
	switch {
	case strings.HasPrefix(to[0], "["):
		if s.Items != nil {
			dropRules(s.Items, to[1:])
		}
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		dropRules(s.AdditionalProperties.Structural, to[1:])
	default:
		if child, ok := s.Properties[to[0]]; ok {
			dropRules(&child, to[1:])
			s.Properties[to[0]] = child
		}
	}
}

// ParsePath parses a path in the API server's notation.
func ParsePath(text string) (Path, error) {
	var p Path
	for text != "" {
		switch text[0] {
		case '.':
			text = text[1:]
		case '[':
			inside, rest, ok := strings.Cut(text[1:], "]")
			if !ok {
				return nil, fmt.Errorf("%q has no end", text)
			}
			if _, err := strconv.Atoi(inside); err != nil {
				p = append(p, inside) // a map key
			} else {
				p = append(p, "["+inside+"]")
			}
			text = rest
		default:
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				end = len(text)
			}
			p, text = append(p, text[:end]), text[end:]
		}
	}
	return p, nil
}

// PatternWords describes the patterns of the definitions in words, to continue "must be ".
func PatternWords() map[string]string {
	const (
		label     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
		subdomain = label + `(\.` + label + `)*`
		ends      = ", and begin and end with a letter or digit"
		labelKey  = "a label key, such as app or example.com/app"
	)
	return map[string]string{
		`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`:                        "a label value: it may consist of letters, digits, '-', '_' and '.'" + ends,
		`^(` + subdomain + `/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`: labelKey,
		`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`:                       "an API version, such as v1 or apps/v1",
		`^(` + subdomain + `)?$`:                                               "an API group, such as apps, or empty for the core group",
		`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`:                          "a duration, such as 90s or 1h30m",
		`^[A-Z][A-Za-z0-9]*$`:                                                  "a kind, such as Deployment",
		`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*$`:                      "names of fields, separated by dots, such as spec.template",
		`^` + label + `$`:                                                      "a name: it may consist of lower-case letters, digits and '-'" + ends,
		`^` + subdomain + `$`:                                                  "a name: it may consist of lower-case letters, digits, '-' and '.'" + ends,
	}
}
