package scheduling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
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

// descend reads what is at a path, each step by its exact name. What is not there leaves into as it is.
func descend(raw []byte, path []string, into any) error {
	for _, step := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return fmt.Errorf("read the object that has %s: %w", step, err)
		}
		next, ok := fields[step]
		if !ok {
			return nil
		}
		raw = next
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", path[len(path)-1], err)
	}
	return nil
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

// copied is a JSON value that shares nothing with another one: values of policies are shared by all who add them.
func copied[T any](value T) T {
	return runtime.DeepCopyJSONValue(value).(T)
}

// canonical is equal for two values that say the same: null and the empty array say nothing.
func canonical(value any) string {
	raw, err := json.Marshal(said(value))
	if err != nil {
		return fmt.Sprintf("%#v", value) // cannot be: it was read from JSON
	}
	return string(raw)
}

func said(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, each := range v {
			if list, isList := each.([]any); each != nil && (!isList || len(list) > 0) {
				kept[name] = said(each)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, each := range v {
			kept[i] = said(each)
		}
		return kept
	}
	return value
}

// maxQuote is how many bytes of a value a message has.
const maxQuote = 200

// quote is a value for a message.
func quote(value any) string {
	if value == nil {
		return "nothing"
	}
	raw := canonical(value)
	if len(raw) <= maxQuote {
		return raw
	}
	cut := maxQuote
	for !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return raw[:cut] + "…"
}
