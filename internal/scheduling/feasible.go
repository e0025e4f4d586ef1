package scheduling

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxLabelValue is the length of the longest value of a label.
const maxLabelValue = 63

// isFeasible tells whether a node could meet a term and carry these labels, among others. It is exact for what Kubernetes knows: labels are
// independent of each other, and of a node's name. What it does not know is taken for something that a node could meet.
func isFeasible(term, nodeSelector map[string]any) bool {
	return !isEmptyTerm(term) && areFeasible(items(term[expressions]), nodeSelector) && areFeasible(items(term[fieldNames]), nil)
}

// isEmptyTerm tells whether a term asks for nothing. Kubernetes takes that for nothing that a node could meet.
func isEmptyTerm(term map[string]any) bool {
	for name, value := range term {
		known := name == expressions || name == fieldNames
		if known && len(items(value)) > 0 || !known && value != nil {
			return false
		}
	}
	return true
}

// areFeasible looks at all requirements on one label together.
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

// left is what requirements on one label leave of its values.
type left struct {
	// values are all that may be; those of a label of which nothing is listed are not limited.
	values []any
	listed bool
	// excluded may not be.
	excluded map[any]bool
	// present and absent: the label must be there, or must not.
	present, absent bool
	// numeric: the value must be a whole number from low to high. That of a label is never below 0.
	numeric   bool
	low, high int64
}

// take adds a requirement; false if that alone cannot be met, as it is malformed to the scheduler.
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

// any tells whether a value is left, or none is one.
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
