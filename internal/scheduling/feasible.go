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
		isKnown := name == expressions || name == fieldNames
		if isKnown && len(items(value)) > 0 || !isKnown && value != nil {
			return false
		}
	}
	return true
}

// areFeasible evaluates all requirements on each label together.
func areFeasible(requirements []any, labels map[string]any) bool {
	byKey := make(map[string]*valueSet, len(requirements))
	for _, item := range requirements {
		r := fields(item)
		key := text(r["key"])
		set := byKey[key]
		if set == nil {
			set = &valueSet{high: math.MaxInt64}
			byKey[key] = set
			if value := labels[key]; value != nil {
				set.restrictTo([]any{value})
			}
		}
		if !set.addRequirement(text(r["operator"]), items(r["values"])) {
			return false
		}
	}
	for _, set := range byKey {
		if !set.isSatisfiable() {
			return false
		}
	}
	return true
}

// valueSet is the set of values of one label that its requirements leave.
type valueSet struct {
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

// addRequirement adds a requirement. It returns false if no label can satisfy the requirement, because it is malformed for the scheduler.
func (l *valueSet) addRequirement(operator string, values []any) bool {
	switch operator {
	case "In":
		l.restrictTo(values)
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
		return l.addBound(operator, values)
	}
	return true
}

func (l *valueSet) restrictTo(values []any) {
	l.present = true
	if !l.listed {
		l.values, l.listed = values, true
		return
	}
	allowed := make(map[any]bool, len(values))
	for _, v := range values {
		allowed[v] = true
	}
	l.values = slices.DeleteFunc(slices.Clone(l.values), func(v any) bool { return !allowed[v] })
}

func (l *valueSet) exclude(values []any) {
	if l.excluded == nil {
		l.excluded = make(map[any]bool, len(values))
	}
	for _, v := range values {
		l.excluded[v] = true
	}
}

func (l *valueSet) addBound(operator string, values []any) bool {
	if len(values) != 1 || strings.HasPrefix(text(values[0]), "-") || strings.HasPrefix(text(values[0]), "+") {
		return false
	}
	operand, err := strconv.ParseInt(text(values[0]), 10, 64)
	if err != nil || operator == "Gt" && operand == math.MaxInt64 {
		return false
	}
	l.numeric, l.present = true, true
	if operator == "Gt" {
		l.low = max(l.low, operand+1)
	} else {
		l.high = min(l.high, operand-1)
	}
	return true
}

// isSatisfiable reports whether a value, or the absence of the label, is left.
func (l *valueSet) isSatisfiable() bool {
	switch {
	case l.absent:
		return !l.present
	case l.listed:
		return slices.ContainsFunc(l.values, l.allows)
	case l.numeric:
		return l.allowsNumber()
	}
	return true
}

func (l *valueSet) allows(value any) bool {
	if l.excluded[value] {
		return false
	}
	if !l.numeric {
		return true
	}
	number, err := strconv.ParseInt(text(value), 10, 64)
	return err == nil && number >= l.low && number <= l.high
}

// allowsNumber reports whether a number is left that is not excluded. A number has several spellings, with leading zeros.
func (l *valueSet) allowsNumber() bool {
	for n := l.low; n <= l.high; n++ {
		for spelling := strconv.FormatInt(n, 10); len(spelling) <= maxLabelValue; spelling = "0" + spelling {
			if !l.excluded[spelling] {
				return true
			}
		}
		if n == math.MaxInt64 {
			return false
		}
	}
	return false
}
