package shape

import "fmt"

// Leftovers returns the values that were set and are no longer wanted, but are still in the object because other managers set them
// too. It returns the Terraform names of fields, and of elements with their own owners. It leaves out the API server's defaults.
func (f *Field) Leftovers(had, wants, live any) []string {
	var all []string
	for _, c := range f.Fields {
		for _, left := range c.leftovers(asMap(had)[c.JSON], asMap(wants)[c.JSON], asMap(live)[c.JSON]) {
			all = append(all, c.Name+left)
		}
	}
	return all
}

// leftovers is Leftovers for any kind of field, but returns only what follows the field's name. That is empty for the field itself.
func (f *Field) leftovers(had, wants, live any) []string {
	switch {
	case had == nil || live == nil || wants == nil && f.Default != nil:
		return nil
	case f.Kind == Set && !f.Atomic:
		return leftoverElements(asList(had), asList(wants), asList(live))
	case f.Kind == List && len(f.keys) > 0:
		return f.leftoverKeyed(asList(had), asList(wants), asList(live))
	case wants == nil:
		return []string{""}
	case f.Kind == Object && !f.Atomic:
		all := f.Leftovers(had, wants, live)
		for i, left := range all {
			all[i] = "." + left
		}
		return all
	default:
		return nil
	}
}

func leftoverElements(had, wants, live []any) []string {
	var all []string
	for _, element := range had {
		if !contains(wants, element) && contains(live, element) {
			all = append(all, fmt.Sprintf("[%q]", element))
		}
	}
	return all
}

func (f *Field) leftoverKeyed(had, wants, live []any) []string {
	var all []string
	for _, element := range had {
		wanted, now := f.keys.find(wants, element), f.keys.find(live, element)
		for _, left := range f.Element.leftovers(element, wanted, now) {
			all = append(all, "["+f.keys.text(element)+"]"+left)
		}
	}
	return all
}
