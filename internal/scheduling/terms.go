package scheduling

import (
	"maps"
	"slices"
)

// maxTerms is the maximum number of terms from the multiplication of required node affinity. It keeps pods small and the scheduler
// fast.
const maxTerms = 100

// product is the result of multiplying terms.
type product struct {
	terms []any
	// unchanged: the pod's terms already satisfy the policy.
	unchanged bool
	// tooMany: the multiplication was aborted.
	tooMany bool
	// feasible: a node could satisfy one of the terms.
	feasible bool
}

// multiply combines each term of a pod with each term of a policy, with the policy's requirements first. A node satisfies the result
// if and only if it satisfies a term of both. A pod's term that already includes a term of the policy stays unchanged, so that a
// second multiplication changes nothing. Terms that no node could satisfy are omitted.
func multiply(pod, policy []any, nodeSelector map[string]any) product {
	isKept := make([]bool, len(pod))
	for i, term := range pod {
		isKept[i] = slices.ContainsFunc(policy, func(wanted any) bool { return includes(fields(term), fields(wanted)) })
	}
	switch {
	case len(pod) > 0 && !slices.Contains(isKept, false):
		return product{terms: pod, unchanged: true}
	case len(pod) > maxTerms:
		return product{tooMany: true}
	}
	var p product
	for i, term := range pod {
		if isKept[i] {
			p.terms = append(p.terms, term)
			p.feasible = p.feasible || isFeasible(fields(term), nodeSelector)
			continue
		}
		for _, wanted := range policy {
			joined := join(fields(wanted), fields(term))
			if isEmptyTerm(fields(term)) || isEmptyTerm(fields(wanted)) || !isFeasible(joined, nodeSelector) {
				continue
			}
			p.terms, p.feasible = append(p.terms, joined), true
			if len(p.terms) > maxTerms {
				return product{tooMany: true}
			}
		}
	}
	return p
}

// The lists of requirements of a term.
const (
	expressions = "matchExpressions"
	fieldNames  = "matchFields"
)

// join returns a term with the requirements of both terms, common ones once, and with the other fields of the pod's term.
func join(policy, pod map[string]any) map[string]any {
	joined := maps.Clone(pod)
	for _, list := range [...]string{expressions, fieldNames} {
		wanted := items(policy[list])
		if len(wanted) == 0 {
			continue
		}
		all := slices.Clone(wanted)
		for _, each := range items(pod[list]) {
			if !slices.ContainsFunc(wanted, func(w any) bool { return isSameRequirement(fields(each), fields(w)) }) {
				all = append(all, each)
			}
		}
		joined[list] = all
	}
	return joined
}

// includes reports whether a term has all requirements of another, non-empty term.
func includes(term, wanted map[string]any) bool {
	if isEmptyTerm(wanted) {
		return false
	}
	for _, list := range [...]string{expressions, fieldNames} {
		for _, each := range items(wanted[list]) {
			if !slices.ContainsFunc(items(term[list]), func(has any) bool { return isSameRequirement(fields(has), fields(each)) }) {
				return false
			}
		}
	}
	return true
}

// isSameRequirement reports whether two requirements are equivalent, regardless of the order of values.
func isSameRequirement(has, wanted map[string]any) bool {
	if has["key"] != wanted["key"] || has["operator"] != wanted["operator"] {
		return false
	}
	values, others := items(has["values"]), items(wanted["values"])
	if len(values) != len(others) {
		return false
	}
	for i, v := range values {
		if others[i] != v && (!slices.Contains(others, v) || !slices.Contains(values, others[i])) {
			return false
		}
	}
	for name, value := range has {
		if _, exists := wanted[name]; !exists && name != "values" && value != nil {
			return false
		}
	}
	return true
}
