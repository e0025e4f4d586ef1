package shape

import (
	"cmp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// NullElement is an element of a map, list or set that is null. An attribute that is null is absent, but the API has no absent elements: an
// object without the element means something else, such as a selector without one of its labels, which selects more pods.
type NullElement struct {
	// Attribute is the path of the element as the protocol has it; that of the set if it is an element of a set.
	Attribute *tftypes.AttributePath
	// Text names it in a configuration: selector.match_labels["tier"], or An element of operations.
	Text string
}

// NullElements returns the null elements at any depth of a value, sorted by path. Unknown elements are not null.
func NullElements(v tftypes.Value) ([]NullElement, error) {
	var all []NullElement
	err := tftypes.Walk(v, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		_, isAttribute := at.LastStep().(tftypes.AttributeName)
		if v.IsNull() && at.LastStep() != nil && !isAttribute {
			all = append(all, newNullElement(at))
		}
		return true, nil
	})
	slices.SortFunc(all, func(a, b NullElement) int { return cmp.Compare(a.Text, b.Text) })
	return all, err
}

func newNullElement(at *tftypes.AttributePath) NullElement {
	text := path.Empty()
	for i, step := range at.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			text = text.AtName(string(step))
		case tftypes.ElementKeyString:
			text = text.AtMapKey(string(step))
		case tftypes.ElementKeyInt:
			text = text.AtListIndex(int(step))
		case tftypes.ElementKeyValue:
			// Neither the protocol nor a configuration can name an element of a set.
			return NullElement{Attribute: tftypes.NewAttributePathWithSteps(at.Steps()[:i]), Text: "An element of " + text.String()}
		}
	}
	return NullElement{Attribute: at, Text: text.String()}
}
