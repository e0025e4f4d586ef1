package printable

import "reflect"

// Value returns a copy of a value in which each string takes one line: in exported fields, elements, keys and pointer targets. The
// value must have no cycles. The copy shares unexported fields with the value.
func Value[T any](value T) T {
	result := reflect.ValueOf(&value).Elem()
	result.Set(copied(result))
	return value
}

// copied returns v, or a copy of it if it can contain strings.
func copied(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	switch v.Kind() {
	case reflect.String:
		to.SetString(Line(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			to.Set(reflect.New(v.Type().Elem()))
			to.Elem().Set(copied(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			to.Set(copied(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				to.Field(i).Set(copied(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			copyElements(to, v)
		}
	case reflect.Array:
		copyElements(to, v)
	case reflect.Map:
		if !v.IsNil() {
			to.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for entry := v.MapRange(); entry.Next(); {
				to.SetMapIndex(copied(entry.Key()), copied(entry.Value()))
			}
		}
	}
	return to
}

func copyElements(to, from reflect.Value) {
	for i := range from.Len() {
		to.Index(i).Set(copied(from.Index(i)))
	}
}
