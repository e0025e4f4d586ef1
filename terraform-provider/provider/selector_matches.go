package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// selectorMatches is a function that reports whether a protector's selector matches a pod.
type selectorMatches struct {
	protectors *kind
}

// Metadata sets the name of the function.
func (f *selectorMatches) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "selector_matches"
}

// Definition defines the parameters and the result.
func (f *selectorMatches) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Report whether a selector matches a pod",
		MarkdownDescription: "Reports whether a selector, as in `breakwater_pod_protector`, matches a pod with the given labels. The empty selector " +
			"matches every pod, and `null` matches none. A selector that the API would reject is an error.",
		Parameters: []function.Parameter{
			function.DynamicParameter{Name: "selector", AllowNullValue: true,
				MarkdownDescription: "An object with `match_labels`, a map, and `match_expressions`, a list of objects with `key`, `operator` (`In`, " +
					"`NotIn`, `Exists` or `DoesNotExist`) and `values`. Either may be left out; a pod must match all of them."},
			function.MapParameter{Name: "labels", ElementType: types.StringType, AllowNullValue: true,
				MarkdownDescription: "The labels of the pod. `null` means none."},
		},
		Return: function.BoolReturn{},
	}
}

// Run evaluates the selector.
func (f *selectorMatches) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var given types.Dynamic
	var of map[string]*string
	if resp.Error = req.Arguments.Get(ctx, &given, &of); resp.Error != nil {
		return
	}
	pod := labels.Set{}
	for key, value := range of {
		if value == nil {
			resp.Error = function.NewArgumentFuncError(1, fmt.Sprintf("The label %q is null: remove it, or set a value.", key))
			return
		}
		pod[key] = *value
	}
	selector, err := f.selector(ctx, given)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, sentence("invalid selector: "+err.Error()))
		return
	}
	resp.Error = resp.Result.Set(ctx, selector.Matches(pod))
}

// selector parses a selector and validates it against the rules of the kind.
func (f *selectorMatches) selector(ctx context.Context, given types.Dynamic) (labels.Selector, error) {
	if given.IsNull() || given.IsUnderlyingValueNull() {
		return labels.Nothing(), nil
	}
	value, err := given.ToTerraformValue(ctx)
	if err != nil {
		return nil, err
	}
	read, err := plain(value)
	if err != nil {
		return nil, err
	}
	object, err := convertArgument(f.protectors.Spec.Child("selector"), "selector", read)
	if err != nil {
		return nil, err
	}
	if err := f.protectors.validateSpec(ctx, map[string]any{"selector": object, "minAvailable": int64(1)}); err != nil {
		return nil, err
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(map[string]any), selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// validateSpec returns the rules of the kind that a spec violates, with Terraform's attribute names; nil if there are none.
func (k *kind) validateSpec(ctx context.Context, spec map[string]any) error {
	rules, err := k.rules()
	if err != nil {
		return fmt.Errorf("the rules of %s cannot be compiled: %w", k.Kind.Kind, err)
	}
	broken := rules.Check(ctx, map[string]any{"spec": spec}, nil, nil)
	texts := make([]string, len(broken))
	for i, e := range broken {
		texts[i] = strings.TrimSuffix(k.message(k.attributePath(e.Field), e.ErrorBody()), ".")
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
