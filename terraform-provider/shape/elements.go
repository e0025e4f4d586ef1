package shape

import (
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// showElements is Show for the elements of a set, each of which has owners of its own.
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

// showKeyed is Show for the elements of a list that keys tell apart, each of which has owners of its own. Their order says nothing
// in the API, and in Terraform it does: they stay in the order in which they were set, whatever others put between them.
func (f *Field) showKeyed(had, live []any, owned *fieldpath.Set) any {
	live = slices.Clone(live)
	slices.SortStableFunc(live, func(a, b any) int { return f.position(had, a) - f.position(had, b) })
	shown := []any{}
	for _, now := range live {
		if v := f.Element.show(f.find(had, now), now, below(owned, f.key(now)), false); v != nil {
			shown = append(shown, v)
		}
	}
	if len(shown) == 0 && had == nil {
		return nil
	}
	return shown
}

// position is where a list has the element with the keys of another one; behind the last when it has none.
func (f *Field) position(list []any, element any) int {
	key := f.key(element)
	i := slices.IndexFunc(list, func(one any) bool { return f.key(one).Equals(key) })
	if i < 0 {
		return len(list)
	}
	return i
}

// key is that of an element, as owners are kept by it. What it does not say is what the apiserver fills in.
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
