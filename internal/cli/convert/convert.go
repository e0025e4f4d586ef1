// Package convert converts budgets of other systems to PodProtectors, and their scheduling policies to those of Breakwater. It warns
// where the result behaves differently.
//
// It is pure: it takes objects, and returns protectors, policies and warnings.
package convert

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Source is an input of a conversion.
type Source struct {
	Object *unstructured.Unstructured
	// Origin is where the object was read, for messages. It is empty for a cluster.
	Origin string
}

// Protector is a PodProtector and the object that it was converted from.
type Protector struct {
	v1alpha1.PodProtector
	From Ref
}

// Result is the result of a conversion.
type Result struct {
	// Protectors are sorted by namespace and name, which are unique.
	Protectors []Protector
	// Policies are sorted by kind, namespace and name, which are unique.
	Policies []Policy
	// Warnings are sorted by the objects that they are about, kind by kind.
	Warnings []Warning
	// Skipped are the objects of kinds that are not converted, in input order, except for the workloads that targetRefs name.
	Skipped []Ref
}

// Convert converts all sources together. The result does not depend on their order, except for objects that occur several times: the
// first one is used.
func Convert(sources []Source) Result {
	var (
		result   Result
		drafts   []draft
		policies []policyDraft
	)
	for _, kind := range Kinds() {
		for _, source := range sourcesOf(kind, sources) {
			r := &conversion{from: refOf(kind.Title, source)}
			if kind.policy != nil {
				policies = r.appendPolicy(policies, kind, source.Object)
			} else if protector, ok := r.read(kind, source.Object); ok {
				drafts = append(drafts, draft{protector: protector, conversion: r, kind: kind})
			}
			if r.isRejected() { // the steps below add the warnings of the others
				result.Warnings = append(result.Warnings, r.warnings...)
			}
		}
	}
	warnContradictions(policies)
	for i := range policies {
		result.Policies = append(result.Policies, policies[i].Policy)
		result.Warnings = append(result.Warnings, policies[i].conversion.warnings...)
	}
	drafts = dropDuplicates(drafts, &result)
	makeNamesUnique(drafts)
	warnOverlaps(drafts, targets(sources))
	for i := range drafts {
		result.Protectors = append(result.Protectors, Protector{PodProtector: drafts[i].protector, From: drafts[i].conversion.from})
		result.Warnings = append(result.Warnings, drafts[i].conversion.warnings...)
	}
	slices.SortFunc(result.Protectors, func(a, b Protector) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(result.Warnings, func(a, b Warning) int { return a.About.compare(b.About) })
	result.Skipped = skippedRefs(sources, drafts)
	return result
}

// draft is a protector that later steps can still change.
type draft struct {
	protector  v1alpha1.PodProtector
	conversion *conversion
	kind       Kind
}

// sourcesOf returns the sources of a kind, sorted by namespace and name. The sort is stable.
func sourcesOf(kind Kind, sources []Source) []Source {
	var found []Source
	for _, source := range sources {
		if source.Object.GroupVersionKind().GroupKind() == kind.GroupKind {
			found = append(found, source)
		}
	}
	slices.SortStableFunc(found, func(a, b Source) int {
		return cmp.Or(strings.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()), strings.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	return found
}

func skippedRefs(sources []Source, drafts []draft) []Ref {
	convertible := map[schema.GroupKind]bool{}
	for _, kind := range Kinds() {
		convertible[kind.GroupKind] = true
	}
	targeted := map[workload]bool{}
	for i := range drafts {
		targeted[targetOf(&drafts[i])] = true
	}
	var refs []Ref
	for _, source := range sources {
		gvk := source.Object.GroupVersionKind()
		if convertible[gvk.GroupKind()] || targeted[workload{gvk.GroupKind(), id{source.Object.GetNamespace(), source.Object.GetName()}}] {
			continue
		}
		title := gvk.Kind
		if gvk.Group == v1alpha1.GroupVersion.Group {
			title = "Breakwater's own " + gvk.Kind
		}
		refs = append(refs, refOf(title, source))
	}
	return refs
}

// dropDuplicates keeps the first of the drafts that were converted from objects with the same name. The meaning of several is
// ambiguous: they can be two versions of one file, or objects of two clusters, whose numbers add up.
func dropDuplicates(drafts []draft, result *Result) []draft {
	var kept []draft
	for _, d := range drafts {
		last := len(kept) - 1
		if last < 0 || kept[last].conversion.from.compare(d.conversion.from) != 0 {
			kept = append(kept, d)
			continue
		}
		const remedy = "only the first was converted; if they are from several clusters, its numbers must cover all of them"
		switch first := &kept[last]; {
		case !equality.Semantic.DeepEqual(first.protector.Spec, d.protector.Spec):
			d.conversion.reject(Repeated, "it was read before%s, with a different spec; %s", first.conversion.from.originSuffix(), remedy)
		case hasAdditiveNumbers(&d):
			d.conversion.reject(Repeated, "it was read before%s, with the same numbers; %s", first.conversion.from.originSuffix(), remedy)
		default:
			continue
		}
		result.Warnings = append(result.Warnings, d.conversion.warnings...)
	}
	return kept
}

// hasAdditiveNumbers reports whether the same object in two clusters means more pods than in one.
func hasAdditiveNumbers(d *draft) bool {
	number := func(amount *intstr.IntOrString) bool {
		return amount != nil && amount.Type == intstr.Int && amount.IntVal > 0
	}
	isPerCluster := slices.ContainsFunc(d.conversion.warnings, func(w Warning) bool { return w.Reason == OneCluster })
	spec := &d.protector.Spec
	return isPerCluster && (number(spec.MinAvailable) || number(spec.MaxUnavailable) || spec.ExpectedReplicas != nil)
}
