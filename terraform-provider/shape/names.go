package shape

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// snake converts an API field name to an attribute name: minAvailable to min_available, podUID to pod_uid.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		starts := unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// describe returns the field's own documentation, or a default for the names that identify an object, with Terraform's names, and adds facts from the schema.
func describe(name string, props *apiextensionsv1.JSONSchemaProps) string {
	text := strings.Join(strings.Fields(props.Description), " ")
	if text == "" {
		text = map[string]string{"kind": "Kind of the object.", "name": "Name of the object.", "namespace": "Namespace of the object."}[name]
	}
	if first, rest, ok := strings.Cut(text, " "); ok && name != "" && strings.EqualFold(first, name) {
		text = "`" + snake(name) + "` " + rest
	}
	// Only camelCase words can be field names. Prose has none.
	text = camelCase.ReplaceAllStringFunc(text, func(word string) string { return "`" + snake(word) + "`" })
	for _, fact := range constraintTexts(props) {
		text = strings.TrimSpace(text + " " + fact)
	}
	return text
}

var camelCase = regexp.MustCompile(`\b[a-z]+[A-Z][A-Za-z]*\b`)

func constraintTexts(props *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	if len(props.Enum) > 0 {
		values := make([]string, len(props.Enum))
		for i, v := range props.Enum {
			values[i] = "`" + strings.Trim(string(v.Raw), `"`) + "`"
		}
		all = append(all, "One of "+strings.Join(values, ", ")+".")
	}
	switch {
	case props.Minimum != nil && props.Maximum != nil:
		all = append(all, fmt.Sprintf("From %.0f to %.0f.", *props.Minimum, *props.Maximum))
	case props.Minimum != nil:
		all = append(all, fmt.Sprintf("%.0f or more.", *props.Minimum))
	}
	if props.Default != nil && props.Type != "object" {
		value := string(snakeFields(props.Default.Raw))
		all = append(all, "Default: `"+cmp.Or(strings.Trim(value, `"`), value)+"`.")
	}
	return all
}

// snakeFields converts the names of fields in a JSON value. It returns other values as they are.
func snakeFields(value []byte) []byte {
	return jsonField.ReplaceAllFunc(value, func(field []byte) []byte { return []byte(snake(string(field))) })
}

var jsonField = regexp.MustCompile(`"[A-Za-z]+":`)
