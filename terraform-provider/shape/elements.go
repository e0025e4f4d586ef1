package shape

import (
	"reflect"
	"slices"

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
	slices.SortStableFunc(live, func(a, b any) int { return f.position(had, a) - f.position(had, b) })
	shown := []any{}
	for _, now := range live {
		if v := f.Element.show(f.findElement(had, now), now, below(owned, f.key(now)), false); v != nil {
			shown = append(shown, v)
		}
	}
	if len(shown) == 0 && had == nil {
		return nil
	}
	return shown
}

// position returns the index of the element with the same keys; the length of the list if there is none.
func (f *Field) position(list []any, element any) int {
	key := f.key(element)
	i := slices.IndexFunc(list, func(one any) bool { return f.key(one).Equals(key) })
	if i < 0 {
		return len(list)
	}
	return i
}

// key returns the key of an element in managedFields. A missing key field has the API server's default.
func (f *Field) key(element any) fieldpath.PathElement {
	keys, object := make(value.FieldList, len(f.Keys)), asMap(element)
	for i, name := range f.Keys {
		v, given := object[name]
		if c := f.Element.Child(name); !given && c != nil {
			v = c.Default
		}
		keys[i] = value.Field{Name: name, Value: value.NewValueInterface(v)}
	}
	return fieldpath.PathElement{Key: &keys}
}
