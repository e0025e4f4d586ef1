package provider_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built is a folder with the provider, as it is released.
func built(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "terraform-provider-breakwater"), "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
	}
	return folder
}

// run is a working directory in which Terraform runs the built provider, as users do: one process for each alias.
type run struct {
	*testing.T
	program, folder string
	variables       []string
}

// in makes a working directory with a configuration. Variables of the environment come as NAME=VALUE.
func in(t *testing.T, built, configuration string, variables ...string) *run {
	t.Helper()
	r := &run{T: t, program: os.Getenv("TF_ACC_TERRAFORM_PATH"), folder: t.TempDir()}
	override := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"breakwater-k8s/breakwater\" = %q\n  }\n  direct {}\n}\n", built)
	r.write("cli.tfrc", override)
	r.write("main.tf", "terraform {\n  required_providers {\n    breakwater = { source = \"breakwater-k8s/breakwater\" }\n  }\n}\n"+configuration)
	r.variables = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(r.folder, "cli.tfrc"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	r.variables = append(r.variables, variables...)
	t.Cleanup(func() {
		if out, err := r.try("destroy", "-auto-approve", "-no-color"); err != nil {
			t.Errorf("destroy: %v\n%s", err, out)
		}
	})
	return r
}

func (r *run) write(name, content string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
}

// file is what is in a file of the working directory.
func (r *run) file(name string) string {
	r.Helper()
	raw, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		r.Fatal(err)
	}
	return string(raw)
}

// try runs a command of Terraform, and gives what it says.
func (r *run) try(arguments ...string) (string, error) {
	command := exec.Command(r.program, arguments...)
	command.Dir, command.Env = r.folder, r.variables
	out, err := command.CombinedOutput()
	return string(out), err
}

// must is try, for what has to succeed.
func (r *run) must(arguments ...string) string {
	r.Helper()
	out, err := r.try(arguments...)
	if err != nil {
		r.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}
