package shape

import (
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Defaults are the values that Terraform itself sets for fields that a configuration leaves out.
type Defaults map[*Field]tftypes.Value

// Defaults returns the defaults of the fields, at any depth.
func (fs Fields) Defaults() (Defaults, error) {
	all := Defaults{}
	return all, all.add(fs)
}

func (d Defaults) add(fs Fields) error {
	for _, f := range fs {
		if f.Default != nil && !f.UnownedIfUnset {
			v, err := f.Decode(f.withDefaults(f.Default))
			if err != nil {
				return err
			}
			d[f] = v
		}
		children := f.Fields
		if f.Element != nil {
			children = f.Element.Fields
		}
		if err := d.add(children); err != nil {
			return err
		}
	}
	return nil
}

// AreComplete reports whether the attributes of a state are those of a configuration, with the defaults that it leaves out: a plan changes nothing.
// It reports false if a value is unknown.
func (d Defaults) AreComplete(fs Fields, configured, state map[string]tftypes.Value) bool {
	for _, f := range fs {
		if !d.isComplete(f, configured[f.Name], state[f.Name]) {
			return false
		}
	}
	return true
}

func (d Defaults) isComplete(f *Field, configured, state tftypes.Value) bool {
	if configured.IsKnown() && configured.IsNull() {
		if v, ok := d[f]; ok {
			return Equal(v, state)
		}
	}
	switch {
	case f.Kind == Object:
	case f.Kind == List && f.Element.Kind == Object:
		return d.areElementsComplete(f.Element, configured, state)
	default:
		return Equal(configured, state)
	}
	if !isPresent(configured) || !isPresent(state) {
		return Equal(configured, state)
	}
	var given, had map[string]tftypes.Value
	return configured.As(&given) == nil && state.As(&had) == nil && d.AreComplete(f.Fields, given, had)
}

func (d Defaults) areElementsComplete(element *Field, configured, state tftypes.Value) bool {
	if !isPresent(configured) || !isPresent(state) {
		return Equal(configured, state)
	}
	var given, had []tftypes.Value
	if configured.As(&given) != nil || state.As(&had) != nil || len(given) != len(had) {
		return false
	}
	for i := range given {
		if !d.isComplete(element, given[i], had[i]) {
			return false
		}
	}
	return true
}

func isPresent(v tftypes.Value) bool { return v.IsKnown() && !v.IsNull() }

// Equal reports whether two values of the same type are equal, and known. The elements of sets must have the same order. It costs a tenth of the
// method of the values.
func Equal(a, b tftypes.Value) bool {
	if !isPresent(a) || !isPresent(b) {
		return a.IsKnown() && b.IsKnown() && a.IsNull() && b.IsNull()
	}
	switch of := a.Type(); {
	case of.Is(tftypes.String):
		return equalScalars[string](a, b)
	case of.Is(tftypes.Bool):
		return equalScalars[bool](a, b)
	case of.Is(tftypes.Number):
		var m, n big.Float
		return a.As(&m) == nil && b.As(&n) == nil && m.Cmp(&n) == 0
	case of.Is(tftypes.Object{}), of.Is(tftypes.Map{}):
		return equalMaps(a, b)
	default:
		return equalLists(a, b)
	}
}

func equalScalars[T comparable](a, b tftypes.Value) bool {
	var v, w T
	return a.As(&v) == nil && b.As(&w) == nil && v == w
}

func equalMaps(a, b tftypes.Value) bool {
	var v, w map[string]tftypes.Value
	if a.As(&v) != nil || b.As(&w) != nil || len(v) != len(w) {
		return false
	}
	for key, one := range v {
		if other, ok := w[key]; !ok || !Equal(one, other) {
			return false
		}
	}
	return true
}

func equalLists(a, b tftypes.Value) bool {
	var v, w []tftypes.Value
	if a.As(&v) != nil || b.As(&w) != nil || len(v) != len(w) {
		return false
	}
	for i := range v {
		if !Equal(v[i], w[i]) {
			return false
		}
	}
	return true
}
