// Package roles reads the permissions of components from the chart, so that tests run with those that an installation grants.
package roles

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Option changes what the chart is rendered with.
type Option func(*chart)

// Value sets a value of the chart, such as generator.sourceKinds.
func Value(path string, value any) Option {
	return func(c *chart) {
		at, keys := c.values, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			inner, ok := at[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[key] = inner
			}
			at = inner
		}
		at[keys[len(keys)-1]] = value
	}
}

// Kinds sets a value of the chart to a list of kinds.
func Kinds(path string, kinds ...schema.GroupResource) Option {
	var all []any
	for _, kind := range kinds {
		all = append(all, map[string]any{"apiGroup": kind.Group, "resource": kind.Resource})
	}
	return Value(path, all)
}

// Template sets the text of another template of the chart.
func Template(name, text string) Option {
	return func(c *chart) { c.texts[name] = text }
}

// Names sets the text of another template to a list of names.
func Names(template string, names ...string) Option {
	text, _ := json.Marshal(slices.Concat([]string{}, names)) // strings have JSON
	return Template(template, string(text))
}

// chart is what a template is rendered with.
type chart struct {
	values map[string]any
	texts  map[string]string
}

// Rules returns the rules of the template breakwater.rules.NAME, by default with the values of the chart.
func Rules(t testing.TB, name string, options ...Option) []rbacv1.PolicyRule {
	t.Helper()
	c := newChart(t, options)
	return c.render(t, name, map[string]any{"Values": c.values})
}

// RenewalRules returns the rules of a component that renews the tokens in these Secrets.
func RenewalRules(t testing.TB, secrets ...string) []rbacv1.PolicyRule {
	t.Helper()
	return newChart(t, nil).render(t, "renewal", secrets)
}

// CertificateRules returns the rules of the controller of certificates for webhook configurations, in the cluster, and for a Secret of a certificate
// and one of caller keys, in the namespace; empty is none. They include those for leader election.
func CertificateRules(t testing.TB, validating, mutating []string, serving, callers string) (inCluster, local []rbacv1.PolicyRule) {
	t.Helper()
	names := []Option{Names("breakwater.configurations", validating...), Names("breakwater.schedulingConfigurations", mutating...)}
	return Rules(t, "certificates.cluster", names...), Rules(t, "certificates.local", Value("webhook.enabled", true), Value("sharder.enabled", false),
		Template("breakwater.certifies", serving), Template("breakwater.tlsSecret", serving), Template("breakwater.consoles", ""),
		Template("breakwater.callers", callers), Template("breakwater.callerSecret", callers))
}

func newChart(t testing.TB, options []Option) *chart {
	t.Helper()
	c := &chart{texts: map[string]string{"breakwater.fullname": "breakwater", "breakwater.isCore": "true"}}
	if err := yaml.Unmarshal(read(t, "values.yaml"), &c.values); err != nil {
		t.Fatal(err)
	}
	for _, option := range options {
		option(c)
	}
	return c
}

// read reads a file of the chart.
func read(t testing.TB, name string) []byte {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if raw, err := os.ReadFile(filepath.Join(folder, "charts", "breakwater", name)); err == nil {
			return raw
		}
	}
	t.Fatalf("the chart has no %s", name)
	return nil
}

func (c *chart) render(t testing.TB, name string, dot any) []rbacv1.PolicyRule {
	t.Helper()
	all := template.New("")
	include := func(name string, dot any) (string, error) {
		if text, ok := c.texts[name]; ok {
			return text, nil
		}
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, dot)
		return out.String(), err
	}
	unused := func(...any) string { return "" }
	all.Funcs(template.FuncMap{
		"include": include, "quote": strconv.Quote, "toJson": toJSON, "fromJsonArray": fromJSONArray, "uniq": slices.Compact[[]string],
		"list": func(all ...any) []any { return all }, "append": func(all []any, one any) []any { return append(all, one) }, "dict": dict,
		"nindent": unused, "toYaml": unused, "default": unused,
	})
	if _, err := all.Parse(string(read(t, "templates/_rules.tpl"))); err != nil {
		t.Fatal(err)
	}
	text, err := include("breakwater.rules."+name, dot)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(text), &rules); err != nil {
		t.Fatalf("rules %s: %v:\n%s", name, err, text)
	}
	return rules
}

func toJSON(value any) (string, error) {
	raw, err := json.Marshal(value)
	return string(raw), err
}

func fromJSONArray(text string) (all []any, err error) {
	return all, json.Unmarshal([]byte(text), &all)
}

// dict returns a map of alternating keys and values.
func dict(pairs ...any) map[any]any {
	m := map[any]any{}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}
