// Package convert converts PodDisruptionBudgets to PodProtectors. It warns where the result behaves differently.
//
// It is pure: it takes objects, and returns protectors and warnings.
package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Source is an input of a conversion.
type Source struct {
	Object *unstructured.Unstructured
	// Origin is where the object was read, for messages. It is empty for a cluster.
	Origin string
}

// Protector is a PodProtector and the budget that it was converted from.
type Protector struct {
	v1alpha1.PodProtector
	From Ref
}

// Manifest returns the protector as a user would write it, without empty fields.
func (p *Protector) Manifest() (map[string]any, error) {
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.PodProtector)
	if err != nil {
		return nil, fmt.Errorf("write PodProtector %s: %w", p.Name, err)
	}
	delete(manifest, "status")
	unstructured.RemoveNestedField(manifest, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(manifest, "spec", "admissionHistory")
	return manifest, nil
}

// Result is the result of a conversion.
type Result struct {
	// Protectors are sorted by namespace and name, which are unique.
	Protectors []Protector
	// Warnings are sorted by the objects that they are about.
	Warnings []Warning
	// Skipped are the objects that are no PodDisruptionBudgets, in input order.
	Skipped []Ref
}

// Convert converts all sources together. The result does not depend on their order, except for objects that occur several times: the
// first one is used.
func Convert(sources []Source) Result {
	var result Result
	var budgets []Source
	for _, source := range sources {
		if source.Object.GroupVersionKind().GroupKind() == policyv1.SchemeGroupVersion.WithKind(budgetKind).GroupKind() {
			budgets = append(budgets, source)
		} else {
			result.Skipped = append(result.Skipped, refOf(titleOf(source), source))
		}
	}
	slices.SortStableFunc(budgets, func(a, b Source) int { return refOf("", a).compare(refOf("", b)) })
	var drafts []*conversion
	for _, source := range budgets {
		c := &conversion{from: refOf(budgetKind, source)}
		if c.read(source.Object) {
			drafts = append(drafts, c)
		} else {
			result.Warnings = append(result.Warnings, c.warnings...)
		}
	}
	drafts = dropDuplicates(drafts, &result)
	warnOverlaps(drafts)
	for _, d := range drafts {
		result.Protectors = append(result.Protectors, Protector{PodProtector: d.protector, From: d.from})
		result.Warnings = append(result.Warnings, d.warnings...)
	}
	slices.SortStableFunc(result.Warnings, func(a, b Warning) int { return a.About.compare(b.About) })
	return result
}

// titleOf names the kind of an object that is not converted.
func titleOf(source Source) string {
	gvk := source.Object.GroupVersionKind()
	if gvk.Group == v1alpha1.GroupVersion.Group {
		return "Breakwater's own " + gvk.Kind
	}
	return gvk.Kind
}

// read converts a budget to a PodProtector, or records why it cannot.
func (c *conversion) read(object *unstructured.Unstructured) bool {
	c.protector.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector"}
	c.protector.ObjectMeta = metadataOf(object)
	fields, given := object.Object["spec"].(map[string]any)
	wrong := validation.IsDNS1123Subdomain(object.GetName())
	switch version := object.GroupVersionKind().Version; {
	case version != policyv1.SchemeGroupVersion.Version:
		c.reject(Malformed, "API version %q is unknown; the known version is %s", version, policyv1.SchemeGroupVersion.Version)
		return false
	case len(wrong) > 0:
		c.reject(Malformed, "its name %q is invalid: %s", object.GetName(), wrong[0])
		return false
	case !given:
		c.reject(Malformed, "it has no spec")
		return false
	}
	budget, ok := c.decode(fields)
	if !ok {
		return false
	}
	if c.protector.Spec, ok = c.spec(budget); !ok {
		return false
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		c.warn(DoesNotFollow, "%s %s writes it, but will not write the protector: update that yourself when this object changes", owner.Kind, owner.Name)
	}
	if slices.Contains(webhookconfig.DefaultExemptNamespaces(), object.GetNamespace()) {
		c.warn(ExemptNamespace, "Breakwater's webhook configurations leave out namespace %s, so that the protector denies no removal there: keep the %s",
			object.GetNamespace(), budgetKind)
	}
	return true
}

// decode decodes the spec of a budget. It warns about unknown fields, because the effect of omitting them is unknown.
func (c *conversion) decode(fields map[string]any) (policyv1.PodDisruptionBudgetSpec, bool) {
	var budget policyv1.PodDisruptionBudgetSpec
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &budget, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		c.warn(Ignored, "its spec has unknown fields, which were left out: %s", oneLine(errors.Join(strict.Errors()...)))
		return budget, true
	}
	if err != nil {
		c.reject(Malformed, "its spec cannot be read: %s", oneLine(err))
		return budget, false
	}
	return budget, true
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }

// dropDuplicates keeps the first of the drafts that were converted from budgets with the same name. The meaning of several is
// ambiguous: they can be two versions of one file, or objects of two clusters, whose numbers add up.
func dropDuplicates(drafts []*conversion, result *Result) []*conversion {
	var kept []*conversion
	for _, d := range drafts {
		last := len(kept) - 1
		if last < 0 || kept[last].from.compare(d.from) != 0 {
			kept = append(kept, d)
			continue
		}
		const remedy = "only the first was converted; if they are from several clusters, its numbers must cover all of them"
		isNumber := func(amount *intstr.IntOrString) bool {
			return amount != nil && amount.Type == intstr.Int && amount.IntVal > 0
		}
		switch first, spec := kept[last], &d.protector.Spec; {
		case !equality.Semantic.DeepEqual(first.protector.Spec, *spec):
			d.reject(Repeated, "it was read before%s, with a different spec; %s", first.from.originSuffix(), remedy)
		case isNumber(spec.MinAvailable) || isNumber(spec.MaxUnavailable):
			d.reject(Repeated, "it was read before%s, with the same numbers; %s", first.from.originSuffix(), remedy)
		default:
			continue
		}
		result.Warnings = append(result.Warnings, d.warnings...)
	}
	return kept
}

// warnOverlaps warns about protectors that can cover the same pods.
func warnOverlaps(drafts []*conversion) {
	before := map[string][]int{}
	covered := make([]selectors.Coverage, len(drafts))
	for i, d := range drafts {
		covered[i], _ = selectors.CoverageOf(&d.protector.Spec, nil) // its selector was compiled before
		for _, j := range before[d.protector.Namespace] {
			if covered[i].Overlaps(covered[j]) {
				d.warn(BothMustAdmit, "it can cover the same pods as %s: both are converted, and a removal of such a pod needs budget of both",
					drafts[j].from)
			}
		}
		before[d.protector.Namespace] = append(before[d.protector.Namespace], i)
	}
}
