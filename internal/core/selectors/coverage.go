package selectors

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Coverage is the set of pods that a protector protects: those that its selector matches, except exempt ones.
type Coverage struct {
	*Selector
	// exempt is nil if no pod is exempt.
	exempt *Selector
}

// CoverageOf returns the coverage of a protector in a cell where its targetRef resolves to target, or nil if to none. If it returns
// an error, the coverage is usable all the same: it has too many pods rather than too few.
func CoverageOf(spec *v1alpha1.PodProtectorSpec, target *v1alpha1.Target) (Coverage, error) {
	var mistakes []error
	selector, err := selectorOf(spec, target)
	if err != nil {
		selector = Everything()
		mistakes = append(mistakes, err)
	}
	coverage := Coverage{Selector: selector}
	if spec.ExemptPodSelector != nil {
		if coverage.exempt, err = Compile(*spec.ExemptPodSelector); err != nil {
			mistakes = append(mistakes, fmt.Errorf("spec.exemptPodSelector: %w", err))
		}
	}
	return coverage, errors.Join(mistakes...)
}

// PodSelectorOf returns the selector by which a protector selects pods in a cell where its targetRef resolves to target. It is nil if
// the target is unknown.
func PodSelectorOf(spec *v1alpha1.PodProtectorSpec, target *v1alpha1.Target) (*v1alpha1.PodSelector, error) {
	if spec.Selector != nil || target == nil {
		return spec.Selector, nil
	}
	return v1alpha1.ParsePodSelector(target.Selector)
}

func selectorOf(spec *v1alpha1.PodProtectorSpec, target *v1alpha1.Target) (*Selector, error) {
	switch {
	case (spec.Selector == nil) == (spec.TargetRef == nil):
		return nil, errors.New("spec must have exactly one of selector and targetRef")
	case spec.Selector != nil:
		selector, err := Compile(*spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("spec.selector: %w", err)
		}
		return selector, nil
	case target == nil:
		return Nothing(), nil
	default:
		selector, err := Parse(target.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of %s %s: %w", spec.TargetRef.Kind, spec.TargetRef.Name, err)
		}
		return selector, nil
	}
}

// CountedCoverageOf returns the pods that count towards a floor, likewise. With an error, these are the protected pods.
func CountedCoverageOf(spec *v1alpha1.PodProtectorSpec, target *v1alpha1.Target) (Coverage, error) {
	covered, err := CoverageOf(spec, target)
	if err != nil || spec.AggregationSelector == nil {
		return covered, err
	}
	counted, err := Compile(*spec.AggregationSelector)
	if err != nil {
		return covered, fmt.Errorf("spec.aggregationSelector: %w", err)
	}
	if !counted.Includes(covered.Selector) {
		return covered, errors.New("spec.aggregationSelector does not select all pods that spec.selector selects")
	}
	return Coverage{Selector: counted, exempt: covered.exempt}, nil
}

// Exempts reports whether a pod that the selector matches is exempt.
func (c Coverage) Exempts(labels map[string]string) bool {
	return c.exempt != nil && c.exempt.Matches(labels)
}

// Covers reports whether a pod with these labels is protected.
func (c Coverage) Covers(labels map[string]string) bool {
	return c.Matches(labels) && !c.Exempts(labels)
}

// SameCoverage reports whether the fields that determine the coverage are equal in two specs.
func SameCoverage(a, b *v1alpha1.PodProtectorSpec) bool {
	return equality.Semantic.DeepEqual(a.Selector, b.Selector) && equality.Semantic.DeepEqual(a.TargetRef, b.TargetRef) &&
		equality.Semantic.DeepEqual(a.ExemptPodSelector, b.ExemptPodSelector)
}

// Equal reports whether two coverages have the same pods.
func (c Coverage) Equal(o Coverage) bool {
	if c.Key() != o.Key() || (c.exempt == nil) != (o.exempt == nil) {
		return false
	}
	return c.exempt == nil || c.exempt.Key() == o.exempt.Key()
}

// Overlaps reports whether a pod could be covered by both. The result is exact.
func (c Coverage) Overlaps(o Coverage) bool {
	both := c.Intersect(o.Selector)
	if !both.CanMatch() {
		return false
	}
	for _, rest := range both.without(c.exempt) {
		for _, left := range rest.without(o.exempt) {
			if left.CanMatch() {
				return true
			}
		}
	}
	return false
}
