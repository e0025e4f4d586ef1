package convert_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

// oneOf draws a value that is usually good.
func oneOf(t *rapid.T, what string, good []any, bad ...any) any {
	if len(bad) > 0 && rapid.IntRange(0, 39).Draw(t, what+" is bad") == 7 {
		return rapid.SampledFrom(bad).Draw(t, what)
	}
	return rapid.SampledFrom(good).Draw(t, what)
}

// drawSelector draws a selector that the API server may accept or reject.
func drawSelector(t *rapid.T, what string) any {
	labels, expressions := map[string]any{}, []any{}
	key := func() string {
		return oneOf(t, what+" key", []any{"app", "example.com/tier", "a.b", strings.Repeat("k", 63)}, "", "a b", "a/b/c", strings.Repeat("k", 64), "-a",
			strings.Repeat("p", 254)+"/k").(string)
	}
	value := func() any {
		return oneOf(t, what+" value", []any{"web", "", "a.b-c_d", strings.Repeat("v", 63)}, "a b", "-", strings.Repeat("v", 64), int64(3))
	}
	for range rapid.IntRange(0, 3).Draw(t, what+" labels") {
		labels[key()] = value()
	}
	for range rapid.IntRange(0, 3).Draw(t, what+" expressions") {
		operator := oneOf(t, what+" operator", []any{"In", "NotIn", "Exists", "DoesNotExist"}, "Gt", "").(string)
		values := []any{}
		if (operator == "In" || operator == "NotIn") != (rapid.IntRange(0, 39).Draw(t, what+" wrong values") == 7) {
			values = append(values, value(), value())
		}
		expressions = append(expressions, map[string]any{"key": key(), "operator": operator, "values": values})
	}
	return map[string]any{"matchLabels": labels, "matchExpressions": expressions}
}

// drawSpec draws fields of all source kinds. Each kind ignores fields that it does not have.
func drawSpec(t *rapid.T, floors []string) map[string]any {
	amounts := []any{int64(0), int64(1), int64(1 << 30)}
	if len(floors) > 1 {
		amounts = append(amounts, "0%", "100%", "07%")
	}
	spec := map[string]any{"selector": drawSelector(t, "selector")}
	bad := []any{int64(-1), int64(1 << 40), "101%", "3", "%", "x%", true, nil}
	spec[rapid.SampledFrom(floors).Draw(t, "floor")] = oneOf(t, "amount", amounts, bad...)
	for _, maybe := range []struct {
		field string
		draw  func() any
	}{
		{"aggregationSelector", func() any { return drawSelector(t, "aggregationSelector") }},
		{"ignoredPodSelector", func() any { return drawSelector(t, "ignoredPodSelector") }},
		{"minReadySeconds", func() any { return oneOf(t, "seconds", []any{int64(0), int64(30)}, int64(-1)) }},
		{"protectTotalReplicas", func() any { return oneOf(t, "replicas", []any{int64(0), int64(30)}, int64(-1)) }},
		{"protectOperations", func() any { return []any{oneOf(t, "operation", []any{"DELETE", "UPDATE"}, "X"), "EVICT"} }},
		{"targetRef", func() any {
			return map[string]any{
				"apiVersion": oneOf(t, "version", []any{"apps/v1", "v1", "apps.kruise.io/v1alpha1"}, "", "a/b/v1", "Apps/v1", "apps/1"),
				"kind":       oneOf(t, "kind", []any{"Deployment"}, "", "deployment", strings.Repeat("K", 64)),
				"name":       oneOf(t, "target", []any{"web"}, "", strings.Repeat("n", 254)),
			}
		}},
		{"admissionHistoryConfig", func() any {
			return map[string]any{
				"maxConcurrentLag":      oneOf(t, "lag", []any{int64(0), int64(5), int64(1<<31 - 1)}, int64(-1)),
				"compactThreshold":      oneOf(t, "threshold", []any{int64(0), int64(1000)}, int64(1001), int64(-1)),
				"aggregationRateMillis": oneOf(t, "rate", []any{int64(0), int64(3600000)}, int64(3600001), int64(-1)),
			}
		}},
	} {
		if rapid.IntRange(0, 3).Draw(t, maybe.field+" is there") == 0 {
			spec[maybe.field] = maybe.draw()
		}
	}
	return spec
}

// For any input, the API server accepts the result, or a warning reports that nothing was converted.
func TestConvertedProtectorsAreAccepted(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	budgets := slices.DeleteFunc(convert.Kinds(), isKupid)
	converted := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(budgets).Draw(rt, "kind")
		floors := []string{"minAvailable", "maxUnavailable"}
		if kind.Alias == "podseidon" {
			floors = floors[:1]
		}
		object := &unstructured.Unstructured{Object: map[string]any{"spec": drawSpec(rt, floors)}}
		object.SetGroupVersionKind(kind.WithVersion(rapid.SampledFrom(kind.Versions).Draw(rt, "version")))
		object.SetNamespace("default")
		object.SetName("web")
		result := convert.Convert([]convert.Source{{Object: object}})
		if len(result.Protectors) == 0 && (len(result.Warnings) != 1 || !result.Warnings[0].NotConverted) {
			rt.Fatalf("not converted without a reason: %v", result.Warnings)
		}
		for i := range result.Protectors {
			converted[kind.Alias]++
			manifest, err := result.Protectors[i].Manifest()
			if err != nil {
				rt.Fatal(err)
			}
			u := &unstructured.Unstructured{Object: manifest}
			err = c.Create(t.Context(), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				rt.Fatalf("API server rejected the conversion of %v: %v", object.Object["spec"], err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("converted %v", converted)
	if testing.Short() {
		return // with -short, rapid draws too few objects to convert some of each kind
	}
	for _, kind := range budgets {
		if !t.Failed() && converted[kind.Alias] == 0 {
			t.Errorf("converted no %s, want some", kind.Title)
		}
	}
}
