package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestThePageHasEveryFieldOfEveryKind(t *testing.T) {
	raw, err := page("../../api")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := read("../../api/crds")
	if err != nil {
		t.Fatal(err)
	}
	if len(definitions) != len(order) {
		t.Errorf("%d definitions, %d kinds", len(definitions), len(order))
	}
	for _, definition := range definitions {
		kind := definition.Spec.Names.Kind
		for _, part := range []string{"spec", "status"} {
			value, ok := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
			if !ok {
				t.Errorf("%s has no %s", kind, part)
			}
			for name := range value.Properties {
				if id := ` id="` + strings.ToLower(kind+"."+part+"."+name) + `"`; strings.Count(string(raw), id) != 1 {
					t.Errorf("the page has %s %d times", id, strings.Count(string(raw), id))
				}
			}
		}
	}
}

func TestLimitsAreSentences(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"integer","minimum":1,"maximum":5,"default":3}`:                          "Default `3`. From 1 to 5.",
		`{"type":"integer","minimum":0}`:                                                  "At least 0.",
		`{"type":"string","enum":["A","B"],"minLength":1,"maxLength":63}`:                 "One of `A`, `B`. At least 1 character. At most 63 characters.",
		`{"type":"string","pattern":"^(a|b)$"}`:                                           "It matches `^(a\\|b)$`.",
		`{"type":"array","maxItems":2,"items":{"type":"string","maxLength":4}}`:           "At most 2 items. Each: At most 4 characters.",
		`{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}}`:    "At least 1 entry.",
		`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`:       "No item twice.",
		`{"type":"object","x-kubernetes-validations":[{"rule":"a | b","message":"do."}]}`: "**must**: do.",
		`{"type":"object","x-kubernetes-validations":[{"rule":"a | b"}]}`:                 "**must**: `a \\| b`.",
	} {
		field := &apiextensionsv1.JSONSchemaProps{}
		if err := json.Unmarshal([]byte(schema), field); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Join(limits(field), " ")); diff != "" {
			t.Errorf("%s -want +got\n%s", schema, diff)
		}
	}
}

func TestAConstantWithoutACommentIsAnError(t *testing.T) {
	folder := t.TempDir()
	for name, source := range map[string]string{"conditions.go": "package v1alpha1\n\nconst ConditionNew = \"New\"\n", "labels.go": "package v1alpha1\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := constants(&bytes.Buffer{}, folder); err == nil || !strings.Contains(err.Error(), "ConditionNew has no comment") {
		t.Errorf("got %v", err)
	}
}

func TestNamesOfConstantsAreReplacedByTheirValues(t *testing.T) {
	folder := t.TempDir()
	for name, source := range map[string]string{
		"conditions.go": "package v1alpha1\n\nconst Most = 256\n",
		"labels.go":     "package v1alpha1\n\n// LabelReason has at most Most bytes.\nconst LabelReason = \"reason\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := constants(&out, folder); err != nil || !strings.Contains(out.String(), "| `reason` | has at most `256` bytes. |") {
		t.Errorf("constants() wrote %v\n%s\nwant a label whose meaning has the number", err, out.String())
	}
}
