package scheduling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"unicode/utf8"
)

// decode parses JSON and keeps the spelling of numbers.
func decode(raw []byte) (any, error) {
	reader := json.NewDecoder(bytes.NewReader(raw))
	reader.UseNumber()
	var value any
	if err := reader.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := reader.Token(); err != io.EOF {
		return nil, fmt.Errorf("unexpected data after the JSON value")
	}
	return value, nil
}

// fieldsOf converts an object to JSON fields.
func fieldsOf(object any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	value, err := decode(raw)
	return fields(value), err
}

// fields returns a JSON object, or nil for any other value.
func fields(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// items returns a JSON array, or nil for any other value.
func items(value any) []any {
	array, _ := value.([]any)
	return array
}

// text returns a JSON string, or "" for any other value.
func text(value any) string {
	s, _ := value.(string)
	return s
}

// isEquivalent reports whether two values are equivalent. null and empty arrays are equivalent to absent fields.
func isEquivalent(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && includesFields(a, b) && includesFields(b, a)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, isEquivalent)
	}
	return reflect.DeepEqual(a, b)
}

// includesFields reports whether the fields of a have equivalent values in b.
func includesFields(a, b map[string]any) bool {
	for name, value := range a {
		list, isList := value.([]any)
		isSet := value != nil && (!isList || len(list) > 0)
		if isSet && !isEquivalent(value, b[name]) {
			return false
		}
	}
	return true
}

// written formats a value as JSON.
func written(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // impossible: the value was parsed from JSON
	}
	return string(raw)
}

// maxQuotedBytes is the maximum number of bytes of a value in a message.
const maxQuotedBytes = 200

// quote formats a value for a message.
func quote(value any) string {
	if value == nil {
		return "nothing"
	}
	raw := written(value)
	if len(raw) <= maxQuotedBytes {
		return raw
	}
	cut := maxQuotedBytes
	for !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return raw[:cut] + "…"
}
