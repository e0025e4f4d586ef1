package scheduling

import (
	"maps"
	"slices"
)

// maxTerms is how many terms the multiplication of required node affinity may give. It keeps a pod small, and the scheduler fast.
const maxTerms = 100

// product is what comes of multiplying terms.
type product struct {
	terms []any
	// unchanged: the pod's terms meet the policy as they are.
	unchanged bool
	// tooMany: it was given up.
	tooMany bool
	// feasible: a node could meet one of them.
	feasible bool
}

// multiply joins each term of a pod with each of a policy, those of the policy before: nodes meet the result just when they meet one of both.
// A pod's term that has all of a policy's in it stays as it is, so that to multiply again changes nothing. Terms that no node could meet are
// left out.
func multiply(pod, policy []any, nodeSelector map[string]any) product {
	stays := make([]bool, len(pod))
	for i, term := range pod {
		stays[i] = slices.ContainsFunc(policy, func(wanted any) bool { return includes(fields(term), fields(wanted)) })
	}
	switch {
	case len(pod) > 0 && !slices.Contains(stays, false):
		return product{terms: pod, unchanged: true}
	case len(pod) > maxTerms:
		return product{tooMany: true}
	}
	var p product
	for i, term := range pod {
		if stays[i] {
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

// join is a term that asks for all that two ask for, what both ask for once, and has what else the pod's has.
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

// includes tells whether a term has all that another one asks for, which is something.
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

// isSameRequirement tells whether two requirements say the same; the order of values says nothing.
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
		if _, known := wanted[name]; !known && name != "values" && value != nil {
			return false
		}
	}
	return true
}
