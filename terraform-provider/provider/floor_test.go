package provider

import (
	"strings"
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

func textOrNull(s string) attr.Value {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}

func numberOrNull(n int64) attr.Value {
	if n < 0 {
		return types.Int64Null()
	}
	return types.Int64Value(n)
}

func TestFloorMatchesWebhook(t *testing.T) {
	f := &floor{protectors: kinds()[0]}
	for name, c := range map[string]struct {
		least, most string
		expected    int64
		want        int64
	}{
		"a number": {"40", "", -1, 40},
		"a number, regardless of expected_replicas": {"40", "", 3, 40},
		"a percentage, rounded up":                  {"70%", "", 101, 71},
		"none":                                      {"0%", "", 100, 0},
		"all":                                       {"100%", "", 7, 7},
		"max_unavailable as a number":               {"", "3", 10, 7},
		"max_unavailable as a percentage, rounded up": {"", "25%", 10, 7},
		"more than exist":             {"", "30", 10, 0},
		"of nothing":                  {"50%", "", 0, 0},
		"the maximum":                 {"2147483647", "", -1, 2147483647},
		"a percentage of the maximum": {"100%", "", 2147483647, 2147483647},
	} {
		t.Run(name, func(t *testing.T) {
			got, complaint := call(t, f, textOrNull(c.least), textOrNull(c.most), numberOrNull(c.expected))
			if complaint != "" {
				t.Fatal(complaint)
			}
			if got.(types.Int64).ValueInt64() != c.want {
				t.Errorf("floor = %s, want %d", got, c.want)
			}
		})
	}
}

func TestFloorRejectsInvalidArguments(t *testing.T) {
	f := &floor{protectors: kinds()[0]}
	for name, c := range map[string]struct {
		least, most string
		expected    types.Int64
		want        string
	}{
		"neither":                                {"", "", types.Int64Value(10), "Cannot compute the minimum number of available pods: min_available: give either min_available or max_unavailable"},
		"both":                                   {"3", "4", types.Int64Value(10), "give either min_available or max_unavailable"},
		"a percentage without expected_replicas": {"70%", "", types.Int64Null(), "expected_replicas is null: percentages and max_unavailable are computed from it"},
		"max_unavailable without expected_replicas": {"", "3", types.Int64Null(), "expected_replicas is null"},
		"over all":                   {"101%", "", types.Int64Value(10), "must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"},
		"no number":                  {"many", "", types.Int64Value(10), "must be a number of pods"},
		"below zero":                 {"", "-3", types.Int64Value(10), "must be a number of pods"},
		"a number of another kind":   {"007", "", types.Int64Value(10), "must be a number of pods"},
		"negative expected_replicas": {"70%", "", types.Int64Value(-1), "expected_replicas: must be at least 0"},
		"too many expected_replicas": {"70%", "", types.Int64Value(1 << 31), "expected_replicas: "},
	} {
		t.Run(name, func(t *testing.T) {
			if got, complaint := call(t, f, textOrNull(c.least), textOrNull(c.most), c.expected); !strings.Contains(complaint, c.want) {
				t.Errorf("got %v, error %q", got, complaint)
			}
		})
	}
}
