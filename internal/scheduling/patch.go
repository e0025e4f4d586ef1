package scheduling

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// change is one of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch is the JSON patch that makes one value of another at a path; nil when they are equal. Nothing is ever removed: fields that after
// has not are left alone. It applies to any object that is like before where the two differ.
func patch(path []string, before, after map[string]any) ([]byte, error) {
	at := ""
	for _, step := range path {
		at += pointer(step)
	}
	changes := changesOf(at, before, after)
	if len(changes) == 0 {
		return nil, nil
	}
	return json.Marshal(changes)
}

// changesOf goes down to what differs. An array that only grew is added to, and others are replaced.
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
			changes = append(changes, changesOf(at+pointer(name), had, after[name])...)
		} else if after[name] != nil {
			changes = append(changes, change{Op: "add", Path: at + pointer(name), Value: after[name]})
		}
	}
	return changes
}

func pointer(step string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1")
}
