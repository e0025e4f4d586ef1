package scheduling

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxLabelValue is the maximum length of a label value.
const maxLabelValue = 63

// isFeasible reports whether a node with these labels, among others, could satisfy a term. For the fields of Kubernetes that it
// knows, the result is exact: labels are independent of each other, and of a node's name. It assumes that a node could satisfy
// unknown fields.
func isFeasible(term, nodeSelector map[string]any) bool {
	return !isEmptyTerm(term) && areFeasible(items(term[expressions]), nodeSelector) && areFeasible(items(term[fieldNames]), nil)
}

// isEmptyTerm reports whether a term has no requirements. Kubernetes matches no node for such a term.
func isEmptyTerm(term map[string]any) bool {
	for name, value := range term {
		known := name == expressions || name == fieldNames
		if known && len(items(value)) > 0 || !known && value != nil {
			return false
		}
	}
	return true
}

// areFeasible evaluates all requirements on each label together.
func areFeasible(requirements []any, labels map[string]any) bool {
	byKey := make(map[string]*left, len(requirements))
	for _, each := range requirements {
		r := fields(each)
		key := text(r["key"])
		l := byKey[key]
		if l == nil {
			l = &left{high: math.MaxInt64}
			byKey[key] = l
			if value := labels[key]; value != nil {
				l.limit([]any{value})
			}
		}
		if !l.take(text(r["operator"]), items(r["values"])) {
			return false
		}
	}
	for _, l := range byKey {
		if !l.any() {
			return false
		}
	}
	return true
}

// left is the set of values of one label that its requirements leave.
type left struct {
	// values are the allowed values if listed is set. Otherwise the values are not limited to a list.
	values []any
	listed bool
	// excluded are the values that are not allowed.
	excluded map[any]bool
	// present and absent: the label must exist, or must not exist.
	present, absent bool
	// numeric: the value must be an integer from low to high. A label value is never negative.
	numeric   bool
	low, high int64
}

// take adds a requirement. It returns false if no label can satisfy the requirement, because it is malformed for the scheduler.
func (l *left) take(operator string, values []any) bool {
	switch operator {
	case "In":
		l.limit(values)
	case "NotIn":
		l.exclude(values)
		return len(values) > 0
	case "Exists":
		l.present = true
		return len(values) == 0
	case "DoesNotExist":
		l.absent = true
		return len(values) == 0
	case "Gt", "Lt":
		return l.bound(operator, values)
	}
	return true
}

func (l *left) limit(values []any) {
	l.present = true
	if !l.listed {
		l.values, l.listed = values, true
		return
	}
	may := make(map[any]bool, len(values))
	for _, v := range values {
		may[v] = true
	}
	l.values = slices.DeleteFunc(slices.Clone(l.values), func(v any) bool { return !may[v] })
}

func (l *left) exclude(values []any) {
	if l.excluded == nil {
		l.excluded = make(map[any]bool, len(values))
	}
	for _, v := range values {
		l.excluded[v] = true
	}
}

func (l *left) bound(operator string, values []any) bool {
	if len(values) != 1 || strings.HasPrefix(text(values[0]), "-") || strings.HasPrefix(text(values[0]), "+") {
		return false
	}
	than, err := strconv.ParseInt(text(values[0]), 10, 64)
	if err != nil || operator == "Gt" && than == math.MaxInt64 {
		return false
	}
	l.numeric, l.present = true, true
	if operator == "Gt" {
		l.low = max(l.low, than+1)
	} else {
		l.high = min(l.high, than-1)
	}
	return true
}

// any reports whether a value, or the absence of the label, is left.
func (l *left) any() bool {
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

func (l *left) admits(value any) bool {
	if l.excluded[value] {
		return false
	}
	if !l.numeric {
		return true
	}
	number, err := strconv.ParseInt(text(value), 10, 64)
	return err == nil && number >= l.low && number <= l.high
}

// leavesNumber reports whether a number is left that is not excluded. A number has several spellings, with leading zeros.
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
