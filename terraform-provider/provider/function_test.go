package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// call runs a function as the framework does.
func call(t testing.TB, f function.Function, arguments ...attr.Value) (attr.Value, string) {
	t.Helper()
	definition := &function.DefinitionResponse{}
	f.Definition(t.Context(), function.DefinitionRequest{}, definition)
	result, err := definition.Definition.Return.NewResultData(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resp := &function.RunResponse{Result: result}
	f.Run(t.Context(), function.RunRequest{Arguments: function.NewArgumentsData(arguments)}, resp)
	if resp.Error != nil {
		return nil, resp.Error.Text
	}
	return resp.Result.Value(), ""
}

// protectors returns the kind PodProtector.
func protectors(t testing.TB) *kind {
	t.Helper()
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// given returns JSON as a dynamic argument.
func given(t testing.TB, v any) types.Dynamic {
	t.Helper()
	value, err := fromPlain(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return types.DynamicValue(value)
}
