package scheduling

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxLabelValue is the length of the longest value of a label.
const maxLabelValue = 63

// requirement is one of a term on a label or a field of a node.
type requirement struct {
	key, operator string
	values        []string
}

func requirementOf(value any) requirement {
	object := fields(value)
	r := requirement{key: text(object["key"]), operator: text(object["operator"])}
	for _, each := range items(object["values"]) {
		r.values = append(r.values, text(each))
	}
	return r
}

// isFeasible tells whether a node could meet a term and carry these labels, among others. It is exact for what Kubernetes knows: labels are
// independent of each other, and of a node's name. What it does not know is taken for something that a node could meet.
func isFeasible(term map[string]any, nodeSelector map[string]any) bool {
	if isEmptyTerm(term) {
		return false
	}
	byLabel := map[string][]requirement{}
	for _, each := range items(term["matchExpressions"]) {
		r := requirementOf(each)
		byLabel[r.key] = append(byLabel[r.key], r)
	}
	for key, all := range byLabel {
		if value, ok := nodeSelector[key]; ok {
			all = append(all, requirement{key: key, operator: "In", values: []string{text(value)}})
		}
		if !leavesAny(all) {
			return false
		}
	}
	byField := map[string][]requirement{}
	for _, each := range items(term["matchFields"]) {
		r := requirementOf(each)
		byField[r.key] = append(byField[r.key], r)
	}
	for _, all := range byField {
		if !leavesAny(all) {
			return false
		}
	}
	return true
}

// isEmptyTerm tells whether a term asks for nothing. Kubernetes takes that for nothing that a node could meet.
func isEmptyTerm(term map[string]any) bool {
	for name, value := range term {
		known := name == "matchExpressions" || name == "matchFields"
		if known && len(items(value)) > 0 || !known && value != nil {
			return false
		}
	}
	return true
}

// left is what requirements on one label leave of its values.
type left struct {
	// values are all that may be; those of a label of which nothing is listed are not limited.
	values []string
	listed bool
	// excluded may not be.
	excluded map[string]bool
	// present and absent: the label must be there, or must not.
	present, absent bool
	// numeric: the value must be a whole number from low to high. That of a label is never below 0.
	numeric   bool
	low, high int64
}

// leavesAny tells whether requirements on one label can be met together.
func leavesAny(all []requirement) bool {
	l := left{excluded: map[string]bool{}, high: math.MaxInt64}
	for _, r := range all {
		if !l.take(r) {
			return false
		}
	}
	switch {
	case l.absent:
		return !l.present
	case l.listed:
		return slices.ContainsFunc(l.values, l.admits)
	case l.numeric:
		return l.leavesNumber()
	}
	return true
}

// take adds a requirement; false if that alone cannot be met, as it is malformed to the scheduler.
func (l *left) take(r requirement) bool {
	switch r.operator {
	case "In":
		if l.listed {
			l.values = slices.DeleteFunc(l.values, func(v string) bool { return !slices.Contains(r.values, v) })
		} else {
			l.values = slices.Clone(r.values)
		}
		l.listed, l.present = true, true
	case "NotIn":
		for _, v := range r.values {
			l.excluded[v] = true
		}
		return len(r.values) > 0
	case "Exists":
		l.present = true
		return len(r.values) == 0
	case "DoesNotExist":
		l.absent = true
		return len(r.values) == 0
	case "Gt", "Lt":
		return l.bound(r)
	}
	return true
}

func (l *left) bound(r requirement) bool {
	if len(r.values) != 1 || strings.HasPrefix(r.values[0], "-") || strings.HasPrefix(r.values[0], "+") {
		return false
	}
	than, err := strconv.ParseInt(r.values[0], 10, 64)
	if err != nil || r.operator == "Gt" && than == math.MaxInt64 {
		return false
	}
	l.numeric, l.present = true, true
	if r.operator == "Gt" {
		l.low = max(l.low, than+1)
	} else {
		l.high = min(l.high, than-1)
	}
	return true
}

func (l *left) admits(value string) bool {
	if l.excluded[value] {
		return false
	}
	if !l.numeric {
		return true
	}
	number, err := strconv.ParseInt(value, 10, 64)
	return err == nil && number >= l.low && number <= l.high
}

// leavesNumber looks for a number that is not excluded. Each can be written in several ways, with zeros before it.
func (l *left) leavesNumber() bool {
	for n := l.low; n <= l.high; n++ {
		for written := strconv.FormatInt(n, 10); len(written) <= maxLabelValue; written = "0" + written {
			if !l.excluded[written] {
				return true
			}
		}
		if n == math.MaxInt64 {
			return false
		}
	}
	return false
}
