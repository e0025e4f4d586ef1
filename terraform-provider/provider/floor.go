package provider

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// floor is a function that computes how many pods must stay available.
type floor struct {
	protectors *kind
}

// Metadata sets the name of the function.
func (f *floor) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "floor"
}

// Definition defines the parameters and the result.
func (f *floor) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	const form = " A number of pods or a percentage, as a string: `\"40\"` or `\"70%\"`; `null` if the other one is set."
	resp.Definition = function.Definition{
		Summary: "Compute a floor",
		MarkdownDescription: "Returns how many pods must stay available across all cells, by the same rule as Breakwater's webhook: percentages are " +
			"rounded up, and the floor is never below 0. Values that the API would reject in a `breakwater_pod_protector` are an error.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "min_available", AllowNullValue: true, MarkdownDescription: "Like the attribute of `breakwater_pod_protector`." + form},
			function.StringParameter{Name: "max_unavailable", AllowNullValue: true, MarkdownDescription: "Like the attribute of `breakwater_pod_protector`." + form},
			function.Int64Parameter{Name: "expected_replicas", AllowNullValue: true,
				MarkdownDescription: "The number of expected pods across all cells. May be `null` if `min_available` is a number."},
		},
		Return: function.Int64Return{},
	}
}

// Run computes the floor.
func (f *floor) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var least, most *string
	var expected *int64
	if resp.Error = req.Arguments.Get(ctx, &least, &most, &expected); resp.Error != nil {
		return
	}
	pods, err := f.compute(ctx, least, most, expected)
	if err != nil {
		resp.Error = function.NewFuncError(sentence("cannot compute the minimum number of available pods: " + err.Error()))
		return
	}
	resp.Error = resp.Result.Set(ctx, int64(pods))
}

func (f *floor) compute(ctx context.Context, minAvailable, maxUnavailable *string, expected *int64) (int, error) {
	spec := map[string]any{"selector": map[string]any{}}
	for name, given := range map[string]*string{"minAvailable": minAvailable, "maxUnavailable": maxUnavailable} {
		if given == nil {
			continue
		}
		e, err := f.protectors.Spec.Child(name).Encode(shape.Path{name}, tftypes.NewValue(tftypes.String, *given))
		if err != nil {
			return 0, err
		}
		spec[name] = e.Value
	}
	if expected != nil {
		if *expected > math.MaxInt32 {
			return 0, errors.New("expected_replicas: must be less than 2147483648")
		}
		spec["expectedReplicas"] = *expected
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	var broken diag.Diagnostics
	f.protectors.check(ctx, &desired{object: object}, nil, &broken)
	if broken.HasError() {
		texts := make([]string, len(broken))
		for i, one := range broken {
			texts[i] = strings.TrimSuffix(one.Detail(), ".")
		}
		return 0, errors.New(strings.Join(texts, "; "))
	}
	p := &v1alpha1.PodProtector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		return 0, err
	}
	pods, known := quota.Floor(p)
	if !known {
		return 0, errors.New("expected_replicas is null: percentages and max_unavailable are computed from it")
	}
	return pods, nil
}
