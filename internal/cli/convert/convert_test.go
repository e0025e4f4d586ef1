package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// source parses an object in YAML.
func source(t testing.TB, text string) convert.Source {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return convert.Source{Object: object.(*unstructured.Unstructured)}
}

// reasons joins the reasons of warnings, with a ! if the object was not converted.
func reasons(warnings []convert.Warning) string {
	var words []string
	for _, w := range warnings {
		word := string(w.Reason)
		if w.NotConverted {
			word += "!"
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// specs returns the specs of protectors by name.
func specs(t testing.TB, protectors []convert.Protector) map[string]any {
	t.Helper()
	all := map[string]any{}
	for i := range protectors {
		manifest, err := protectors[i].Manifest()
		if err != nil {
			t.Fatal(err)
		}
		all[protectors[i].Name] = manifest["spec"]
	}
	return all
}

func parsed(t testing.TB, text string) map[string]any {
	t.Helper()
	var value map[string]any
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"kind": "K", "apiVersion": "v1", "value": ` + string(raw) + `}`)); err != nil {
		t.Fatal(err)
	}
	value, _ = u.Object["value"].(map[string]any)
	return value
}

// wantAccepted creates protectors on a real API server as a dry run.
func wantAccepted(t testing.TB, protectors []convert.Protector) {
	t.Helper()
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range protectors {
		if err := create(t, c, &protectors[i]); err != nil {
			t.Errorf("API server rejected %s: %v", protectors[i].Name, err)
		}
	}
}

func create(t testing.TB, c client.Client, p *convert.Protector) error {
	t.Helper()
	manifest, err := p.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: manifest}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	if u.GetNamespace() != "default" {
		t.Fatalf("%s has a namespace other than default, which does not exist", p.Name)
	}
	return c.Create(t.Context(), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// conversionCase is a test of one source: its spec, its other metadata, and the expected spec and warnings. An empty want expects no
// protector.
type conversionCase struct{ given, metadata, want, warnings string }

func wantConversions(t *testing.T, apiVersion, kind string, tests map[string]conversionCase) {
	for claim, test := range tests {
		t.Run(claim, func(t *testing.T) {
			metadata := "name: web, namespace: default"
			if test.metadata != "" {
				metadata += ", " + test.metadata
			}
			result := convert.Convert([]convert.Source{source(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {%s}, spec: %s}",
				apiVersion, kind, metadata, test.given))})
			want := map[string]any{}
			if test.want != "" {
				want["web"] = parsed(t, test.want)
			}
			if diff := cmp.Diff(want, specs(t, result.Protectors)); diff != "" {
				t.Errorf("protectors (-want +got):\n%s", diff)
			}
			wanted := strings.Fields(test.warnings)
			slices.Sort(wanted)
			if got := reasons(result.Warnings); got != strings.Join(wanted, " ") {
				t.Errorf("warnings %q, want %q:\n%v", got, test.warnings, result.Warnings)
			}
			wantAccepted(t, result.Protectors)
		})
	}
}

// repeatFormat returns n items. The format gets the index of each.
func repeatFormat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
