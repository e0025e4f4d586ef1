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

// decode reads JSON with its numbers as they are written.
func decode(raw []byte) (any, error) {
	reader := json.NewDecoder(bytes.NewReader(raw))
	reader.UseNumber()
	var value any
	if err := reader.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := reader.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more behind the value")
	}
	return value, nil
}

// fieldsOf is an object as JSON, field by field.
func fieldsOf(object any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	value, err := decode(raw)
	return fields(value), err
}

// fields is a JSON object; nil for anything else.
func fields(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// items is a JSON array; nil for anything else.
func items(value any) []any {
	array, _ := value.([]any)
	return array
}

// text is a JSON string; empty for anything else.
func text(value any) string {
	s, _ := value.(string)
	return s
}

// isSame tells whether two values say the same: null and the empty array say nothing.
func isSame(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && saysAll(a, b) && saysAll(b, a)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, isSame)
	}
	return reflect.DeepEqual(a, b)
}

// saysAll tells whether one object says in all its fields what another one says.
func saysAll(a, b map[string]any) bool {
	for name, value := range a {
		list, isList := value.([]any)
		says := value != nil && (!isList || len(list) > 0)
		if says && !isSame(value, b[name]) {
			return false
		}
	}
	return true
}

// written is a value as JSON.
func written(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // cannot be: it was read from JSON
	}
	return string(raw)
}

// maxQuote is how many bytes of a value a message has.
const maxQuote = 200

// quote is a value for a message.
func quote(value any) string {
	if value == nil {
		return "nothing"
	}
	raw := written(value)
	if len(raw) <= maxQuote {
		return raw
	}
	cut := maxQuote
	for !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return raw[:cut] + "…"
}
