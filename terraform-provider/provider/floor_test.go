package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

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

func TestAFloorIsReckonedByTheRuleOfTheWebhook(t *testing.T) {
	f := &floor{protectors: protectors(t)}
	for name, c := range map[string]struct {
		least, most string
		expected    int64
		want        int64
	}{
		"a number":                       {"40", "", -1, 40},
		"a number, whatever is expected": {"40", "", 3, 40},
		"a percentage, rounded up":       {"70%", "", 101, 71},
		"none":                           {"0%", "", 100, 0},
		"all":                            {"100%", "", 7, 7},
		"so many fewer":                  {"", "3", 10, 7},
		"a percentage fewer, rounded up": {"", "25%", 10, 7},
		"more than there are":            {"", "30", 10, 0},
		"of nothing":                     {"50%", "", 0, 0},
		"the most that there can be":     {"2147483647", "", -1, 2147483647},
		"a percentage of the most":       {"100%", "", 2147483647, 2147483647},
	} {
		t.Run(name, func(t *testing.T) {
			got, complaint := call(t, f, textOrNull(c.least), textOrNull(c.most), numberOrNull(c.expected))
			if complaint != "" {
				t.Fatal(complaint)
			}
			if got.(types.Int64).ValueInt64() != c.want {
				t.Errorf("it is %s, not %d", got, c.want)
			}
		})
	}
}

func TestAFloorThatTheAPIRefusesIsRefused(t *testing.T) {
	f := &floor{protectors: protectors(t)}
	for name, c := range map[string]struct {
		least, most string
		expected    types.Int64
		want        string
	}{
		"neither":                  {"", "", types.Int64Value(10), "The floor cannot be reckoned: min_available: Invalid value: give either minAvailable or maxUnavailable"},
		"both":                     {"3", "4", types.Int64Value(10), "give either minAvailable or maxUnavailable"},
		"nothing to reckon from":   {"70%", "", types.Int64Null(), "expected_replicas is null: percentages and max_unavailable are reckoned from it"},
		"nor for the other":        {"", "3", types.Int64Null(), "expected_replicas is null"},
		"over all":                 {"101%", "", types.Int64Value(10), "must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"},
		"no number":                {"many", "", types.Int64Value(10), "must be a number of pods"},
		"below zero":               {"", "-3", types.Int64Value(10), "must be a number of pods"},
		"a number of another kind": {"007", "", types.Int64Value(10), "must be a number of pods"},
		"fewer than none":          {"70%", "", types.Int64Value(-1), "expected_replicas: Invalid value: -1"},
		"more than can be":         {"70%", "", types.Int64Value(1 << 31), "expected_replicas: "},
	} {
		t.Run(name, func(t *testing.T) {
			if got, complaint := call(t, f, textOrNull(c.least), textOrNull(c.most), c.expected); !strings.Contains(complaint, c.want) {
				t.Errorf("it says %v, %q", got, complaint)
			}
		})
	}
}
