package charts_test

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

var fillTime = time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)

// fillAllFields sets every field of the value that a pointer refers to, with one element in each list, including fields that are added later.
func fillAllFields(pointer any) { fill(reflect.ValueOf(pointer).Elem()) }

func fill(v reflect.Value) {
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		*value = metav1.NewTime(fillTime)
		return
	case *metav1.MicroTime:
		*value = metav1.NewMicroTime(fillTime)
		return
	case *v1alpha1.PackedBytes:
		*value = v1alpha1.PackedBytes("12345678")
		return
	case *metav1.ConditionStatus:
		*value = metav1.ConditionTrue
		return
	case *v1alpha1.Discount:
		*value = v1alpha1.DiscountStale
		return
	case *v1alpha1.Exemption:
		*value = v1alpha1.ExemptLabel
		return
	case *v1alpha1.Operation:
		*value = v1alpha1.OperationDelete
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(5)
	}
}

// leafPaths returns the paths of all leaf fields of a value.
func leafPaths(value any, path []any) (all [][]any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			all = append(all, leafPaths(field, append(slices.Clone(path), name))...)
		}
	case []any:
		for i, element := range value {
			all = append(all, leafPaths(element, append(slices.Clone(path), i))...)
		}
	default:
		all = append(all, path)
	}
	return all
}

// changeField sets the field at a path to a different value that its schema allows.
func changeField(t testing.TB, object map[string]any, path []any) {
	t.Helper()
	var at any = object
	for _, step := range path[:len(path)-1] {
		switch step := step.(type) {
		case string:
			at = at.(map[string]any)[step]
		case int:
			at = at.([]any)[step]
		}
	}
	switch last := path[len(path)-1].(type) {
	case string:
		in := at.(map[string]any)
		in[last] = differentValue(t, in[last])
	case int:
		in := at.([]any)
		in[last] = differentValue(t, in[last])
	}
}

func differentValue(t testing.TB, value any) any {
	t.Helper()
	switch value := value.(type) {
	case int64:
		return value + 1
	case bool:
		return !value
	case string:
		return differentText(value)
	default:
		t.Fatalf("a field is %v, of type %T", value, value)
		return nil
	}
}

func differentText(value string) string {
	enumerated := map[string]string{
		string(metav1.ConditionTrue): string(metav1.ConditionFalse), string(v1alpha1.DiscountStale): string(v1alpha1.DiscountCleared),
		string(v1alpha1.ExemptLabel):                          string(v1alpha1.ExemptNoWebhook),
		string(v1alpha1.OperationDelete):                      string(v1alpha1.OperationEvict),
		base64.StdEncoding.EncodeToString([]byte("12345678")): base64.StdEncoding.EncodeToString([]byte("87654321")),
	}
	if other, ok := enumerated[value]; ok {
		return other
	}
	if strings.HasPrefix(value, "2026-") {
		return strings.Replace(value, "2026-", "2027-", 1)
	}
	return value + "y"
}
