package scheduling

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// change is one operation of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// createPatch returns the JSON patch that turns before into after at a path. It returns nil if they are equal. It removes nothing: fields
// that are missing in after are left unchanged. The patch applies to any object that equals before wherever before and after differ.
func createPatch(path []string, before, after map[string]any) ([]byte, error) {
	at := ""
	for _, step := range path {
		at += escapePointer(step)
	}
	changes := changesOf(at, before, after)
	if len(changes) == 0 {
		return nil, nil
	}
	return json.Marshal(changes)
}

// changesOf recurses to the differences. It appends to an array that only grew, and replaces other values.
func changesOf(at string, before, after any) []change {
	if old, object := before.(map[string]any); object {
		if now, object := after.(map[string]any); object {
			return changesOfFields(at, old, now)
		}
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	old, now := items(before), items(after)
	if old == nil || len(now) < len(old) || !reflect.DeepEqual(old, now[:len(old)]) {
		return []change{{Op: "replace", Path: at, Value: after}}
	}
	var changes []change
	for _, each := range now[len(old):] {
		changes = append(changes, change{Op: "add", Path: at + "/-", Value: each})
	}
	return changes
}

func changesOfFields(at string, before, after map[string]any) (changes []change) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if had := before[name]; had != nil {
			changes = append(changes, changesOf(at+escapePointer(name), had, after[name])...)
		} else if after[name] != nil {
			changes = append(changes, change{Op: "add", Path: at + escapePointer(name), Value: after[name]})
		}
	}
	return changes
}

func escapePointer(step string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1")
}
