package examples_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// The examples of the documentation apply without changes.
func TestExamplesApply(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		d := terraform.New(t, program, "")
		d.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
		prepareDir(t, d)
		applyAll(t, d)
		outputs(t, d)
		imports(t, program)
		if program == terraform.Terraform { // OpenTofu has neither
			query(t, d)
			invokeActions(t, d)
		}
		d.Run("destroy", "-auto-approve")
	})
}

// applyAll applies the examples in one configuration: first the resources, then the data sources and functions. After each apply,
// the next plan must be empty.
func applyAll(t *testing.T, d *terraform.Dir) {
	t.Helper()
	for _, stage := range [][]string{
		{"resources/*/resource*.tf"},
		{"data-sources/*/data-source*.tf", "functions/*/function*.tf"},
	} {
		for _, path := range matching(t, stage...) {
			addExample(t, d, path)
		}
		d.Run("apply", "-auto-approve")
		if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			t.Errorf("the second plan is not empty: %v\n%s", err, out)
		}
	}
}

// addExample adds an example to the configuration.
func addExample(t *testing.T, d *terraform.Dir, path string) {
	t.Helper()
	d.Write(strings.ReplaceAll(path, string(filepath.Separator), "_"), destructible(read(t, path)))
}

// outputs checks that the outputs are what the comments in the examples say.
func outputs(t *testing.T, d *terraform.Dir) {
	t.Helper()
	found, got := map[string]struct{ Value any }{}, map[string]any{}
	parse(t, d.Run("output", "-json"), &found)
	want := map[string]any{
		"floors":                      map[string]any{"min_available": 35., "max_unavailable": 40.},
		"without_budget":              []any{"catalog", "checkout", "web"},
		"cells_that_are_not_ready":    []any{},
		"pods_of_worker_1":            0.,
		"web_may_lose":                0.,
		"floor_of_the_frontend":       "70%",
		"production_namespaces":       map[string]any{"environment": "production"},
		"ring_is_ready":               "True",
		"spread_keys":                 []any{"topology.kubernetes.io/zone"},
		"scheduling_policies_of_shop": []any{"reports", "zones"},
	}
	for name := range want {
		got[name] = found[name].Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// imports runs the import examples for existing objects.
func imports(t *testing.T, program string) {
	t.Helper()
	for _, path := range matching(t, "resources/*/import-by-string-id.tf", "resources/*/import-by-identity.tf", "resources/*/import.sh") {
		d := terraform.New(t, program, read(t, filepath.Join(filepath.Dir(path), "resource.tf")))
		d.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
		want := []string{"1 to import, 0 to add, 0 to change, 0 to destroy"}
		if strings.HasSuffix(path, ".tf") {
			d.Write("import.tf", read(t, path))
		} else {
			_, command, _ := strings.Cut(read(t, path), "\nterraform ")
			d.Run(strings.Fields(command)...)
			want = []string{"No changes."}
		}
		out := d.Run("plan")
		if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(out, w) }) {
			t.Errorf("%s: want %q, got\n%s", path, want, out)
		}
	}
}

// query lists the objects of the examples with the list resource examples.
func query(t *testing.T, d *terraform.Dir) {
	t.Helper()
	for _, path := range matching(t, "list-resources/*/*.tfquery.hcl") {
		addExample(t, d, path)
	}
	out := d.Run("query")
	for _, found := range []string{"name=worker-1", "name=production", "name=databases", "name=spread", "name=frontend,namespace=shop", "name=web,namespace=shop",
		"name=zones,namespace=shop"} {
		if !strings.Contains(out, found) {
			t.Errorf("the query has not found %s:\n%s", found, out)
		}
	}
}

// invokeActions invokes the action examples for objects that need them.
func invokeActions(t *testing.T, d *terraform.Dir) {
	t.Helper()
	held, dead := createStuckProtectors(t)
	for _, path := range matching(t, "actions/*/action*.tf") {
		addExample(t, d, path)
		_, invocation, ok := strings.Cut(read(t, path), "-invoke=")
		if !ok {
			t.Errorf("%s does not say how it is invoked", path)
		}
		d.Run("apply", "-auto-approve", "-invoke="+strings.Fields(invocation)[0])
	}
	if gone(t, held) != nil {
		t.Error("the action has not released the protector")
	}
	if p := gone(t, dead); p == nil || len(p.Status.Cells) > 0 {
		t.Errorf("the action has not cleared the cell: %v", p)
	}
}
