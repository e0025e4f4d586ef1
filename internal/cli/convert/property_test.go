package convert_test

import (
	"errors"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
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

// drawSpec draws the spec of a budget.
func drawSpec(t *rapid.T) map[string]any {
	amounts := []any{int64(0), int64(1), int64(1 << 30), "0%", "100%", "07%"}
	spec := map[string]any{"selector": drawSelector(t, "selector")}
	bad := []any{int64(-1), int64(1 << 40), "101%", "3", "%", "x%", true, nil}
	spec[rapid.SampledFrom([]string{"minAvailable", "maxUnavailable"}).Draw(t, "floor")] = oneOf(t, "amount", amounts, bad...)
	if rapid.IntRange(0, 3).Draw(t, "policy is there") == 0 {
		spec["unhealthyPodEvictionPolicy"] = oneOf(t, "policy", []any{"AlwaysAllow", "IfHealthyBudget"}, "Never", int64(1))
	}
	return spec
}

// For any input, the API server accepts the result, or a warning reports that nothing was converted.
func TestConvertedProtectorsAreAccepted(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	converted := 0
	rapid.Check(t, func(rt *rapid.T) {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": drawSpec(rt)}}
		object.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
		object.SetNamespace("default")
		object.SetName("web")
		result := convert.Convert([]convert.Source{{Object: object}})
		if len(result.Protectors) == 0 && (len(result.Warnings) != 1 || !result.Warnings[0].NotConverted) {
			rt.Fatalf("not converted without a reason: %v", result.Warnings)
		}
		for i := range result.Protectors {
			converted++
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
	if !t.Failed() && converted == 0 {
		t.Error("converted no budget, want some")
	}
}
