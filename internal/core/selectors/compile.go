package selectors

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Compile compiles a selector with the semantics of Kubernetes: all of matchLabels and matchExpressions must hold, an empty selector
// matches every pod, NotIn and DoesNotExist match a pod without the label, and values and keys may be repeated.
//
// The error of a malformed selector lists every mistake with its path below the selector. The schema of PodProtector rejects all of
// them, so they only occur in objects that were stored before the schema or bypassed it.
func Compile(s v1alpha1.PodSelector) (*Selector, error) {
	var mistakes field.ErrorList
	requirements := make([]requirement, 0, len(s.MatchLabels)+len(s.MatchExpressions))

	path := field.NewPath("matchLabels")
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		value := s.MatchLabels[key]
		mistakes = append(mistakes, checkKey(path, key)...)
		mistakes = append(mistakes, checkValue(path.Key(key), value)...)
		requirements = append(requirements, requirement{key: key, relation: oneOf, values: []string{value}})
	}

	path = field.NewPath("matchExpressions")
	for i := range s.MatchExpressions {
		r, wrong := compileExpression(path.Index(i), &s.MatchExpressions[i])
		mistakes = append(mistakes, wrong...)
		requirements = append(requirements, r)
	}
	if len(mistakes) > 0 {
		return nil, mistakes.ToAggregate()
	}
	return newSelector(requirements), nil
}

// Parse compiles a selector in the format of ParsePodSelector.
func Parse(text string) (*Selector, error) {
	s, err := v1alpha1.ParsePodSelector(text)
	if err != nil {
		return nil, err
	}
	return Compile(*s)
}

func compileExpression(path *field.Path, e *v1alpha1.PodSelectorRequirement) (requirement, field.ErrorList) {
	r := requirement{key: e.Key, values: sorted(e.Values)}
	mistakes := checkKey(path.Child("key"), e.Key)
	takesValues := false
	switch e.Operator {
	case metav1.LabelSelectorOpIn:
		r.relation, takesValues = oneOf, true
	case metav1.LabelSelectorOpNotIn:
		r.relation, takesValues = noneOf, true
	case metav1.LabelSelectorOpExists:
		r.relation = present
	case metav1.LabelSelectorOpDoesNotExist:
		r.relation = absent
	default:
		return r, append(mistakes, field.NotSupported(path.Child("operator"), e.Operator, []metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}))
	}

	values := path.Child("values")
	switch {
	case takesValues && len(e.Values) == 0:
		mistakes = append(mistakes, field.Required(values, "operators In and NotIn need at least one value"))
	case !takesValues && len(e.Values) > 0:
		mistakes = append(mistakes, field.Forbidden(values, "operators Exists and DoesNotExist take no values"))
	}
	for i, value := range e.Values {
		mistakes = append(mistakes, checkValue(values.Index(i), value)...)
	}
	return r, mistakes
}

func checkKey(path *field.Path, key string) field.ErrorList {
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(path, key, strings.Join(wrong, "; "))}
	}
	return nil
}

func checkValue(path *field.Path, value string) field.ErrorList {
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(wrong, "; "))}
	}
	return nil
}
