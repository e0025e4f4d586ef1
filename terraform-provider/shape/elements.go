package shape

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// showElements is Show for the elements of a set, each of which has its own owners.
func showElements(had, live []any, owned *fieldpath.Set) any {
	return slices.DeleteFunc(slices.Clone(live), func(element any) bool {
		if contains(had, element) {
			return false
		}
		v := value.NewValueInterface(element)
		return owned == nil || !owned.Members.Has(fieldpath.PathElement{Value: &v})
	})
}

func contains(list []any, element any) bool {
	return slices.ContainsFunc(list, func(one any) bool { return reflect.DeepEqual(one, element) })
}

// showKeyed is Show for the elements of a list with keys, each of which has its own owners. Their order has no meaning in the
// API, but it has in Terraform. So the elements keep the order in which Terraform set them, even if other managers insert
// elements between them.
func (f *Field) showKeyed(had, live []any, owned *fieldpath.Set) any {
	live = slices.Clone(live)
	slices.SortStableFunc(live, func(a, b any) int { return f.keys.position(had, a) - f.keys.position(had, b) })
	shown := []any{}
	for _, now := range live {
		if v := f.Element.Show(f.keys.find(had, now), now, below(owned, f.keys.of(now))); v != nil {
			shown = append(shown, v)
		}
	}
	if len(shown) == 0 && had == nil {
		return nil
	}
	return shown
}

// elementKeys are the fields that identify the elements of a list, sorted by API name.
type elementKeys []*Field

// of returns the key of an element in managedFields. A missing key field has the API server's default.
func (k elementKeys) of(element any) fieldpath.PathElement {
	keys, object := make(value.FieldList, len(k)), asMap(element)
	for i, c := range k {
		v, given := object[c.JSON]
		if !given {
			v = c.Default
		}
		keys[i] = value.Field{Name: c.JSON, Value: value.NewValueInterface(v)}
	}
	return fieldpath.PathElement{Key: &keys}
}

// position returns the index of the element with the same keys; the length of the list if there is none.
func (k elementKeys) position(list []any, element any) int {
	key := k.of(element)
	i := slices.IndexFunc(list, func(one any) bool { return k.of(one).Equals(key) })
	if i < 0 {
		return len(list)
	}
	return i
}

// find returns the element of a list with the same keys; nil if there is none.
func (k elementKeys) find(list []any, element any) any {
	if i := k.position(list, element); i < len(list) {
		return list[i]
	}
	return nil
}

// text returns the keys of an element for messages: group = "apps", resource = "deployments".
func (k elementKeys) text(element any) string {
	all := make([]string, len(k))
	for i, key := range *k.of(element).Key {
		all[i] = fmt.Sprintf("%s = %q", k[i].Name, fmt.Sprint(key.Value.Unstructured()))
	}
	return strings.Join(all, ", ")
}
