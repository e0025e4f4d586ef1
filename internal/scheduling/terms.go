package scheduling

import (
	"slices"
	"strconv"
	"strings"
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
	policy = slices.DeleteFunc(slices.Clone(policy), func(term any) bool { return isEmptyTerm(fields(term)) })
	wanted := make([]map[string]bool, len(policy))
	for i, term := range policy {
		wanted[i] = requirementKeys(fields(term))
	}
	stays := make([]bool, len(pod))
	for i, term := range pod {
		has := requirementKeys(fields(term))
		stays[i] = slices.ContainsFunc(wanted, func(keys map[string]bool) bool { return includes(has, keys) })
	}
	if len(pod) > 0 && !slices.Contains(stays, false) {
		return product{terms: pod, unchanged: true}
	}
	var p product
	made := map[string]bool{}
	for i, term := range pod {
		if stays[i] {
			p.take(term, isFeasible(fields(term), nodeSelector))
			continue
		}
		if isEmptyTerm(fields(term)) {
			continue
		}
		for _, with := range policy {
			joined := join(fields(with), fields(term))
			if key := termKey(joined); isFeasible(joined, nodeSelector) && !made[key] {
				made[key] = true
				p.take(joined, true)
			}
			if len(p.terms) > maxTerms || len(pod) > maxTerms {
				return product{tooMany: true}
			}
		}
	}
	return p
}

func (p *product) take(term any, feasible bool) {
	p.terms = append(p.terms, term)
	p.feasible = p.feasible || feasible
}

// join is a term that asks for all that two ask for, each once, and has what else the pod's has.
func join(policy, pod map[string]any) map[string]any {
	joined := copied(pod)
	for _, list := range [...]string{"matchExpressions", "matchFields"} {
		var all []any
		seen := map[string]bool{}
		for _, each := range slices.Concat(items(policy[list]), items(pod[list])) {
			if key := requirementKey(each); !seen[key] {
				seen[key] = true
				all = append(all, copied(each))
			}
		}
		if len(all) > 0 {
			joined[list] = all
		}
	}
	return joined
}

// requirementKey is equal for requirements that ask for the same: the order of values says nothing.
func requirementKey(value any) string {
	object := fields(value)
	r := requirementOf(value)
	slices.Sort(r.values)
	parts := []string{strconv.Quote(r.key), strconv.Quote(r.operator)}
	for _, v := range slices.Compact(r.values) {
		parts = append(parts, strconv.Quote(v))
	}
	unknown := map[string]any{}
	for name, each := range object {
		if name != "key" && name != "operator" && name != "values" {
			unknown[name] = each
		}
	}
	if len(unknown) > 0 {
		parts = append(parts, canonical(unknown))
	}
	return strings.Join(parts, " ")
}

// requirementKeys are those of all requirements of a term.
func requirementKeys(term map[string]any) map[string]bool {
	keys := map[string]bool{}
	for _, list := range [...]string{"matchExpressions", "matchFields"} {
		for _, each := range items(term[list]) {
			keys[list+" "+requirementKey(each)] = true
		}
	}
	return keys
}

// termKey is equal for terms that ask for the same and have the same besides.
func termKey(term map[string]any) string {
	var parts []string
	for key := range requirementKeys(term) {
		parts = append(parts, key)
	}
	slices.Sort(parts)
	unknown := map[string]any{}
	for name, each := range term {
		if name != "matchExpressions" && name != "matchFields" {
			unknown[name] = each
		}
	}
	return strings.Join(parts, "\n") + canonical(unknown)
}

func includes(all, some map[string]bool) bool {
	for key := range some {
		if !all[key] {
			return false
		}
	}
	return true
}
