package selectors

import (
	"slices"
	"strings"
)

// relation is the condition of a requirement on one label. These four are closed under "and", so that one requirement per key is
// enough.
type relation uint8

const (
	// oneOf: the label exists and its value is listed. At least one value is listed.
	oneOf relation = iota
	// present: the label exists and its value is not listed. Exists lists none.
	present
	// noneOf: the label does not exist, or its value is not listed. At least one value is listed.
	noneOf
	// absent: the label does not exist. No value is listed.
	absent
)

// admits reports whether a label satisfies the relation. there reports whether the label exists, listed whether its value is listed.
func (r relation) admits(exists, listed bool) bool {
	switch r {
	case oneOf:
		return exists && listed
	case present:
		return exists && !listed
	case noneOf:
		return !exists || !listed
	default:
		return !exists
	}
}

// requirement is a condition on one label.
type requirement struct {
	key      string
	relation relation
	// values are sorted and unique.
	values []string
}

// admits reports whether a pod may have this value of the label, or lack the label if there is false.
func (r *requirement) admits(value string, exists bool) bool {
	return r.relation.admits(exists, exists && r.hasValue(value))
}

// exact reports whether the requirement requires a single value.
func (r *requirement) exact() bool {
	return r.relation == oneOf && len(r.values) == 1
}

func (r *requirement) hasValue(value string) bool {
	if len(r.values) == 1 {
		return r.values[0] == value
	}
	_, listed := slices.BinarySearch(r.values, value)
	return listed
}

// intersect combines two requirements on the same key. It returns false if no label, existing or not, can satisfy both.
func (r requirement) intersect(o requirement) (requirement, bool) {
	if o.relation < r.relation {
		r, o = o, r
	}
	both := requirement{key: r.key, relation: r.relation}
	switch {
	case r.relation == oneOf:
		for _, value := range r.values {
			if o.admits(value, true) {
				both.values = append(both.values, value)
			}
		}
		return both, len(both.values) > 0
	case o.relation != absent:
		// Both exclude values, and present is the stricter of the two relations.
		both.values = sorted(r.values, o.values)
		return both, true
	default:
		both.relation = absent
		return both, r.relation != present
	}
}

// write writes the requirement in Kubernetes syntax.
func (r *requirement) write(b *strings.Builder) {
	switch {
	case r.relation == absent:
		b.WriteString("!" + r.key)
	case r.relation == oneOf:
		b.WriteString(r.key + " in (" + strings.Join(r.values, ",") + ")")
	case r.relation == noneOf:
		b.WriteString(r.key + " notin (" + strings.Join(r.values, ",") + ")")
	case len(r.values) == 0:
		b.WriteString(r.key)
	default:
		b.WriteString(r.key + "," + r.key + " notin (" + strings.Join(r.values, ",") + ")")
	}
}

// sorted returns the values of all lists in order, each once.
func sorted(lists ...[]string) []string {
	values := slices.Concat(lists...)
	slices.Sort(values)
	return slices.Compact(values)
}

// negate returns requirements whose union is the negation of r.
func (r requirement) negate() []requirement {
	switch r.relation {
	case oneOf:
		return []requirement{{key: r.key, relation: noneOf, values: r.values}}
	case noneOf:
		return []requirement{{key: r.key, relation: oneOf, values: r.values}}
	case absent:
		return []requirement{{key: r.key, relation: present}}
	default:
		others := []requirement{{key: r.key, relation: absent}}
		if len(r.values) > 0 {
			others = append(others, requirement{key: r.key, relation: oneOf, values: r.values})
		}
		return others
	}
}
