package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"
)

// decoded returns the result of a function for a text, as JSON.
func decoded(t testing.TB, f *manifestDecode, text string) (any, string) {
	t.Helper()
	result, complaint := call(t, f, types.StringValue(text))
	if complaint != "" {
		return nil, complaint
	}
	value, err := result.(types.Dynamic).ToTerraformValue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read, err := plain(value)
	if err != nil {
		t.Fatal(err)
	}
	return read, ""
}

func TestManifestDecodeMatchesKubectl(t *testing.T) {
	const cell = "apiVersion: breakwater.dev/v1alpha1\nkind: Cell\n"
	one := func(more ...any) map[string]any {
		m := map[string]any{"apiVersion": "breakwater.dev/v1alpha1", "kind": "Cell"}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		text string
		want any
	}{
		"one document":                      {cell, one()},
		"with marks, comments and gaps":     {"# a file\n---\n\n" + cell + "---\n# nothing\n---\n", one()},
		"with the ends of lines of Windows": {"---\r\n" + strings.ReplaceAll(cell, "\n", "\r\n") + "---\r\n", one()},
		"JSON":                              {`{"apiVersion": "breakwater.dev/v1alpha1", "kind": "Cell", "a": [1, {"b": null}]}`, one("a", []any{json.Number("1"), map[string]any{"b": nil}})},
		"numbers keep their digits":         {cell + "a: 9007199254740993\nb: 0.1\nc: -3", one("a", json.Number("9007199254740993"), "b", json.Number("0.1"), "c", json.Number("-3"))},
		"yes is true, as of old":            {cell + "a: yes\nb: \"yes\"", one("a", true, "b", "yes")},
		"times are texts":                   {cell + "a: 2026-04-05T06:07:08Z", one("a", "2026-04-05T06:07:08Z")},
		"keys are texts":                    {cell + "a: {1: b}", one("a", map[string]any{"1": "b"})},
		"anchors":                           {cell + "a: &x {b: c}\nd: *x", one("a", map[string]any{"b": "c"}, "d", map[string]any{"b": "c"})},
		"a text over several lines":         {cell + "a: |\n  --- not a mark\n  two\n", one("a", "--- not a mark\ntwo\n")},
	} {
		t.Run(name, func(t *testing.T) {
			got, complaint := decoded(t, &manifestDecode{}, c.text)
			if complaint != "" {
				t.Fatal(complaint)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			several, complaint := decoded(t, &manifestDecode{multi: true}, c.text+"\n---\n"+c.text)
			if diff := cmp.Diff([]any{c.want, c.want}, several); diff != "" || complaint != "" {
				t.Error(diff, complaint)
			}
		})
	}
	if none, complaint := decoded(t, &manifestDecode{multi: true}, "# nothing\n---\n"); complaint != "" || len(none.([]any)) != 0 {
		t.Errorf("of nothing there are %v (%s)", none, complaint)
	}
}

func TestManifestDecodeErrors(t *testing.T) {
	const cell = "apiVersion: breakwater.dev/v1alpha1\nkind: Cell\n"
	for text, want := range map[string]string{
		"":                        "The text contains no manifest: it is empty, or has only comments.",
		"---\n# nothing\n---\n":   "The text contains no manifest",
		cell + "---\n" + cell:     "The text contains 2 manifests, want one: use manifest_decode_multi.",
		"a: {":                    "Document 1 of the text: it is not YAML: line 1: ",
		cell + "---\n- a":         "Document 2 of the text: it is not a manifest: a manifest is an object.",
		cell + "---\nkind: Cell":  "Document 2 of the text: it is not a manifest: it has no apiVersion.",
		"apiVersion: v1\nkind: 3": "it has no kind.",
		cell + "kind: Cell":       `key "kind" already set`,
		cell + "--- |\n text":     "Document 1 of the text: ",
		"just a text":             "it is not a manifest: a manifest is an object.",
		cell + "a: .inf":          "Document 1 of the text: ",
	} {
		t.Run(text, func(t *testing.T) {
			if got, complaint := decoded(t, &manifestDecode{}, text); !strings.Contains(complaint, want) {
				t.Errorf("%q makes %v, %q", text, got, complaint)
			}
		})
	}
}

// These functions are the strict way to write a nested object: their arguments keep the names that a schema would drop.
func TestManifestsOfBreakwaterAreStrict(t *testing.T) {
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		`{selector: {matchLabels: {app: web}}, minAvailable: 1}`:                                "",
		`{selector: {match_labels: {app: web}}, minAvailable: 1}`:                               "a PodProtector has no field spec.selector.match_labels.",
		`{selector: {matchLabels: {a: b}, expressions: []}, spread: {domains: 3}, floor: 1}`:    "spec.floor, spec.selector.expressions, spec.spread.domains.",
		`{selector: {matchExpressions: [{key: a, operator: In, value: b}]}, minAvailable: 30%}`: "spec.selector.matchExpressions[0].value.",
		`{selector: {matchLabels: {app: web, tier: null}}, minAvailable: 1}`:                    "spec.selector.matchLabels.tier is null: set a value, or leave it out.",
		`{selector: {matchExpressions: [{key: a, operator: In, values: [b, null]}]}}`:           "spec.selector.matchExpressions[0].values[1] is null",
		`{selector: {matchLabels: {app: web}, matchExpressions: null}, minAvailable: 1}`:        "",
	} {
		text := "apiVersion: breakwater.dev/v1alpha1\nkind: PodProtector\nmetadata: {namespace: shop, name: web}\nspec: " + spec
		_, complaint := decoded(t, &manifestDecode{kinds: all}, text)
		if !strings.Contains(complaint, want) || want == "" && complaint != "" {
			t.Errorf("manifest_decode of %s: error %q, want %q", spec, complaint, want)
		}
		object, _ := decoded(t, &manifestDecode{}, text)
		if _, complaint = call(t, manifestEncode{kinds: all}, given(t, object)); !strings.Contains(strings.ToLower(complaint), strings.ToLower(strings.TrimPrefix(want, "a "))) || want == "" && complaint != "" {
			t.Errorf("manifest_encode of %s: error %q, want %q", spec, complaint, want)
		}
	}
	for text, want := range map[string]string{
		"apiVersion: breakwater.dev/v1alpha1\nkind: PodProtecter":                         "breakwater.dev/v1alpha1 has no kind PodProtecter.",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {a: b}":                             "",
		"apiVersion: v1\nkind: A\nmetadata: {labels: {a: }}":                              "",
		"apiVersion: breakwater.dev/v1alpha1\nkind: Cell\nmetadata: {annotations: {a: }}": "metadata.annotations.a is null: set a value, or leave it out.",
		"apiVersion: breakwater.dev/v1alpha1\nkind: Cell\nmetadata: {labels: }":           "",
	} {
		if _, complaint := decoded(t, &manifestDecode{kinds: all}, text); !strings.Contains(complaint, want) || want == "" && complaint != "" {
			t.Errorf("manifest_decode of %s: error %q, want %q", text, complaint, want)
		}
	}
}

func TestManifestEncodeSortsAndOmitsNull(t *testing.T) {
	protector := map[string]any{
		"kind": "PodProtector", "apiVersion": "breakwater.dev/v1alpha1", "metadata": map[string]any{"name": "web", "labels": nil},
		"spec": map[string]any{"minAvailable": "70%", "expectedReplicas": json.Number("100"), "selector": map[string]any{}, "operations": []any{"Delete"}},
	}
	const text = `apiVersion: breakwater.dev/v1alpha1
kind: PodProtector
metadata:
  name: web
spec:
  expectedReplicas: 100
  minAvailable: 70%
  operations:
  - Delete
  selector: {}
`
	for range 20 {
		got, complaint := call(t, manifestEncode{}, given(t, protector))
		if complaint != "" {
			t.Fatal(complaint)
		}
		if diff := cmp.Diff(text, got.(types.String).ValueString()); diff != "" {
			t.Fatal(diff)
		}
	}
	got, complaint := call(t, manifestEncode{}, given(t, []any{protector, protector}))
	if complaint != "" || got.(types.String).ValueString() != text+"---\n"+text {
		t.Errorf("manifest_encode of two objects = %s, error %s", got, complaint)
	}
	if _, complaint := call(t, manifestEncode{}, given(t, map[string]any{"a": "\x7f"})); complaint != "It cannot be written as YAML: control characters are not allowed." {
		t.Errorf("manifest_encode of control characters: error %q", complaint)
	}
	for _, wrong := range []any{"text", json.Number("3"), []any{"text"}, []any{protector, nil}} {
		if got, complaint := call(t, manifestEncode{}, given(t, wrong)); !strings.Contains(complaint, "A manifest must be an object") {
			t.Errorf("manifest_encode(%v) = %s, error %q", wrong, got, complaint)
		}
	}
}

// Decoding returns any object as it was encoded, whether alone or with others.
func TestManifestRoundTrip(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune("\n\t :-#'\"{}[]"), unicode.L, unicode.N, unicode.P, unicode.S)), func(s string) any { return s }),
		rapid.SampledFrom([]any{"yes", "no", "null", "~", "", " ", "0777", "1e3", "--- a", "---", "a: b", "# c", "\n---\n", "|", "2026-04-05", true, false}),
		rapid.Map(rapid.Int64(), func(n int64) any { return json.Number(strconv.FormatInt(n, 10)) }),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(n float64) any { return json.Number(fmt.Sprintf("%.3f", n)) }),
	)
	name := rapid.OneOf(rapid.StringMatching(`[a-zA-Z.\-/ ]{1,12}`), rapid.SampledFrom([]string{"on", "1", "---", "null"}))
	var value *rapid.Generator[any]
	deferred := rapid.Deferred(func() *rapid.Generator[any] { return value })
	value = rapid.OneOf(scalar, scalar,
		rapid.Map(rapid.MapOfN(name, deferred, 0, 4), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(deferred, 0, 4), func(l []any) any { return l }))
	manifest := rapid.Map(rapid.MapOfN(name, value, 0, 4), func(m map[string]any) any {
		m = maps.Clone(m)
		m["apiVersion"], m["kind"] = "v1", "List"
		return m
	})
	number := cmp.Comparer(func(a, b json.Number) bool {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return a == b || x == y && strings.ContainsAny(string(a)+string(b), ".eE")
	})
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(manifest, 1, 3).Draw(rt, "manifests")
		text, complaint := call(t, manifestEncode{}, given(t, want))
		if complaint != "" {
			rt.Fatal(complaint)
		}
		got, complaint := decoded(t, &manifestDecode{multi: true}, text.(types.String).ValueString())
		if diff := cmp.Diff(any(want), got, number); diff != "" || complaint != "" {
			rt.Fatalf("%s%s\nwritten as %s", diff, complaint, text)
		}
	})
}
