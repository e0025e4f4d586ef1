package examples_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/terraform"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// What the documentation shows is applied as it stands: resources first, then what looks at them.
func TestExamplesAreAppliedAsTheyStand(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		world(t)
		d := terraform.New(t, program, "")
		d.Variables = surroundings(t, testplane.Kubeconfig(t))
		applyAll(t, d)
		imports(t, program)
		d.Run("destroy", "-auto-approve")
	})
}

// surroundings are the variables that examples take for granted.
func surroundings(t *testing.T, kubeconfig string) []string {
	t.Helper()
	worker := string(testplane.KubeconfigOf(t, testplane.Config(t)))
	return []string{"KUBE_CONFIG_PATH=" + kubeconfig, "TF_VAR_worker_2_kubeconfig=" + worker}
}

// applyAll applies the examples of what there is in a configuration. The plan of each stage is empty when it was applied.
func applyAll(t *testing.T, d *terraform.Dir) {
	t.Helper()
	for _, stage := range [][]string{
		{"resources/*/resource*.tf"},
		{"data-sources/*/data-source*.tf", "functions/*/function*.tf", "ephemeral-resources/*/ephemeral-resource*.tf"},
	} {
		for _, path := range matching(t, stage...) {
			d.Write(flat(path), destructible(read(t, path)))
		}
		d.Run("apply", "-auto-approve")
		if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			t.Errorf("the second plan is not empty: %v\n%s", err, out)
		}
	}
}

// imports plays what the examples say of imports, of objects that are there.
func imports(t *testing.T, program string) {
	t.Helper()
	patterns := []string{"resources/*/import-by-string-id.tf", "resources/*/import.sh"}
	if program == terraform.Terraform {
		patterns = append(patterns, "resources/*/import-by-identity.tf") // OpenTofu has no identities
	}
	for _, path := range matching(t, patterns...) {
		d := terraform.New(t, program, read(t, filepath.Join(filepath.Dir(path), "resource.tf")))
		d.Variables = surroundings(t, testplane.Kubeconfig(t))
		imported := "1 to import, "
		if strings.HasSuffix(path, ".tf") {
			d.Write("import.tf", read(t, path))
		} else {
			_, command, _ := strings.Cut(read(t, path), "\nterraform ")
			d.Run(strings.Fields(command)...)
			imported = ""
		}
		// What protects from deletion is Terraform's own, which an import cannot know.
		if out := d.Run("plan"); !strings.Contains(out, imported+"0 to add, 0 to change, 0 to destroy") && (imported != "" || !strings.Contains(out, "No changes")) {
			t.Errorf("%s: want nothing left to do, got\n%s", path, out)
		}
	}
}
