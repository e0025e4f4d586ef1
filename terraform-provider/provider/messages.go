package provider

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// message translates a message of the API server about a field: it begins with the path of the attribute, has the names of attributes
// instead of those of API fields, says in words what is allowed, and leaves out the value, which can be sensitive: Terraform shows others itself.
func (k *kind) message(at path.Path, text string) string {
	text = withoutValue(text)
	if found := bodyMessage.FindStringSubmatch(text); found != nil {
		text = found[1] + allowed(found[2])
	}
	text = regexHint.ReplaceAllString(text, "")
	text = specPath.ReplaceAllStringFunc(text, func(name string) string {
		if a := k.attributePath(name); !a.Equal(path.Empty()) {
			return a.String()
		}
		return name
	})
	text = camelCase.ReplaceAllStringFunc(text, func(word string) string {
		if name, ok := k.attributeNames[word]; ok {
			return name
		}
		return word
	})
	if at.Equal(path.Empty()) {
		return sentence(text)
	}
	return at.String() + ": " + strings.TrimSuffix(text, ".") + "."
}

// withoutValue removes the given value from a message such as `Invalid value: "1d": must be a duration`.
func withoutValue(text string) string {
	found := givenValue.FindStringSubmatch(text)
	switch {
	case found == nil:
		return text
	case found[1] == "Duplicate":
		return "the same value is there twice"
	default:
		return strings.Replace(found[2], "supported values: ", "must be one of ", 1)
	}
}

var (
	givenValue = regexp.MustCompile(`(?s)^(Invalid|Unsupported|Duplicate) value(?:: (?:"(?:[^"\\]|\\.)*"|\{.*\}|\[.*\]|[-+.0-9e]+|true|false|null))?(?:: (.*))?$`)
	// bodyMessage is a violation of the OpenAPI schema: `Invalid value: "1d": spec.staleAfter in body should match '^...$'`.
	bodyMessage = regexp.MustCompile(`(?s)^(.*: |)\S+ in body (.*)$`)
	regexHint   = regexp.MustCompile(`,? ?\(?regex used for validation is '[^']*'`)
	specPath    = regexp.MustCompile(`\bspec(\.[A-Za-z]+|\[[^\]]*\])+`)
	camelCase   = regexp.MustCompile(`\b[a-z]+[A-Z][A-Za-z]*\b`)
)

// allowed says what a rule of an OpenAPI schema allows.
func allowed(rule string) string {
	for from, to := range map[string]string{
		"should be greater than or equal to ": "must be at least ", "should be less than or equal to ": "must be at most ",
		"should have at least ": "must have at least ", "should have at most ": "must have at most ",
		"should be at least ": "must be at least ", "should be at most ": "must be at most ",
	} {
		if bound, ok := strings.CutPrefix(rule, from); ok {
			return to + strings.Replace(strings.Replace(bound, " items", " element(s)", 1), " chars long", " character(s) long", 1)
		}
	}
	if pattern, ok := strings.CutPrefix(rule, "should match '"); ok {
		if words, ok := shape.PatternWords()[strings.TrimSuffix(pattern, "'")]; ok {
			return "must be " + words
		}
		return "does not have the form that the API requires; see the description of the attribute"
	}
	return rule
}

// attributeNamesOf adds the attribute names of all fields in a field, by their names in the API.
func attributeNamesOf(f *shape.Field, all map[string]string) {
	for _, c := range f.Fields {
		all[c.JSON] = c.Name
		attributeNamesOf(c, all)
	}
	if f.Element != nil {
		attributeNamesOf(f.Element, all)
	}
}

// of returns "PodProtector shop/web", for the details of diagnostics. Their summaries do not depend on the object, so that Terraform can
// fold equal ones.
func (k *kind) of(name string) string { return fmt.Sprintf("%s %s", k.Kind.Kind, name) }
