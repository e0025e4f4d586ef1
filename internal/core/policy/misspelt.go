package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Mistake is a label or annotation with the prefix of Breakwater that has no effect on its object.
type Mistake struct {
	// Key and Value are as on the object. IsLabel reports whether it is a label.
	Key, Value string
	IsLabel    bool
	// Problem says why it has no effect, as a clause, and Remedy what to set instead, as a sentence. Remedy is empty if the intention is
	// unknown.
	Problem, Remedy string
}

// String returns the mistake in one sentence or two.
func (m Mistake) String() string {
	kind := "annotation"
	if m.IsLabel {
		kind = "label"
	}
	text := fmt.Sprintf("The %s %s=%s has no effect: %s.", kind, m.Key, m.Value, m.Problem)
	if m.Remedy != "" {
		text += " " + m.Remedy
	}
	return text
}

// Mistakes returns the mistakes in the labels and annotations of an object, sorted by key.
func Mistakes(on v1alpha1.KeyTarget, labels, annotations map[string]string) (all []Mistake) {
	for _, of := range []struct {
		isLabel bool
		values  map[string]string
	}{{true, labels}, {false, annotations}} {
		for _, key := range slices.Sorted(maps.Keys(of.values)) {
			if !strings.HasPrefix(strings.ToLower(key), v1alpha1.KeyPrefix) {
				continue
			}
			if problem, remedy := checkKey(on, of.isLabel, key, of.values[key]); problem != "" {
				all = append(all, Mistake{Key: key, Value: of.values[key], IsLabel: of.isLabel, Problem: problem, Remedy: remedy})
			}
		}
	}
	return all
}

// checkKey returns why a label or annotation has no effect on an object; empty if it can have one.
func checkKey(on v1alpha1.KeyTarget, isLabel bool, name, value string) (problem, remedy string) {
	keys := v1alpha1.Keys()
	at := slices.IndexFunc(keys, func(k v1alpha1.Key) bool { return k.Name == name || k.IsPrefix && strings.HasPrefix(name, k.Name) })
	// Users who write LabelProtect from memory set LabelProtected, which has a meaning only on namespaces.
	if at < 0 || name == v1alpha1.LabelProtected && on != v1alpha1.KeyOnNamespace {
		if key, ok := closestKey(on, name); ok {
			return "Breakwater has no such key", "Did you mean the " + describeKey(key, value) + "?"
		}
		return "Breakwater has no such key", ""
	}
	key := &keys[at]
	switch {
	case isLabel && !key.IsLabel:
		return "it must be an annotation", "Set the annotation instead."
	case !isLabel && !key.IsAnnotation:
		return "it must be a label", "Set the label instead."
	case len(key.On) > 0 && !slices.Contains(key.On, on):
		return fmt.Sprintf("Breakwater does not read it on a %s", on), fmt.Sprintf("Set it on %s.", joinTargets(key.On))
	case len(key.Values) > 0 && !slices.Contains(key.Values, value):
		return "Breakwater knows no such value", "Use one of these values: " + strings.Join(key.Values, ", ") + "."
	case name == v1alpha1.AnnotationConfirmRelease && !isConfirmation(value):
		return "Breakwater knows no such value", "Use true, a date (2026-11-30) or an RFC 3339 time."
	}
	return "", ""
}

// isConfirmation reports whether a value can confirm, now or in the past.
func isConfirmation(value string) bool {
	_, notDate := time.Parse(time.DateOnly, value)
	_, notTime := time.Parse(time.RFC3339, value)
	return value == "true" || value == "false" || notDate == nil || notTime == nil
}

func joinTargets(on []v1alpha1.KeyTarget) string {
	var names []string
	for _, one := range on {
		names = append(names, "a "+string(one))
	}
	return strings.Join(names, " or ")
}

// describeKey describes a key as the user should set it. A value that the key knows stays.
func describeKey(key *v1alpha1.Key, value string) string {
	kind := "annotation"
	if key.IsLabel {
		kind = "label"
	}
	switch {
	case len(key.Values) == 0:
		return kind + " " + key.Name
	case !slices.Contains(key.Values, value):
		value = key.Values[0]
	}
	return kind + " " + key.Name + "=" + value
}

// closestKey returns the key that the user probably meant, among those that users set, on objects of this kind first.
func closestKey(on v1alpha1.KeyTarget, name string) (closest *v1alpha1.Key, ok bool) {
	const maxDistance = 3
	type candidate struct {
		key             *v1alpha1.Key
		elsewhere, away int
	}
	var candidates []candidate
	name = strings.ToLower(strings.TrimPrefix(strings.ToLower(name), v1alpha1.KeyPrefix))
	keys := v1alpha1.Keys()
	for i := range keys {
		if len(keys[i].On) == 0 {
			continue
		}
		want := strings.TrimPrefix(keys[i].Name, v1alpha1.KeyPrefix)
		c := candidate{key: &keys[i], away: editDistance(name, want)}
		if strings.HasPrefix(name, want) || strings.HasPrefix(want, name) && len(name) >= maxDistance {
			c.away = min(c.away, maxDistance)
		}
		if !slices.Contains(keys[i].On, on) {
			c.elsewhere = 1
		}
		if c.away <= maxDistance {
			candidates = append(candidates, c)
		}
	}
	if len(candidates) == 0 {
		return nil, false
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.away, b.away), cmp.Compare(a.elsewhere, b.elsewhere))
	})
	return best.key, true
}

// editDistance returns the Levenshtein distance of two ASCII texts.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
