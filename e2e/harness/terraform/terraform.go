// Package terraform runs Terraform, or OpenTofu, in tests as users do: the real program, which starts the provider as a separate
// program. It downloads nothing from a registry.
package terraform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// The supported programs: the newest version of each, and the oldest.
const (
	Terraform       = "terraform"
	OpenTofu        = "tofu"
	OldestTerraform = Terraform + oldest
	OldestOpenTofu  = OpenTofu + oldest
)

// oldest ends the names of the oldest versions, and of the modules that pin them. Both versions of a program have the same file name.
const oldest = "-oldest"

// Program returns the path of a program that make built.
func Program(t testing.TB, name string) string {
	t.Helper()
	file, isOldest := strings.CutSuffix(name, oldest)
	folders := slices.DeleteFunc(filepath.SplitList(os.Getenv(local.BinariesVariable)), func(folder string) bool {
		return strings.Contains(filepath.Base(folder), oldest+"-") != isOldest
	})
	found, ok := local.FindProgram(folders, file)
	if !ok {
		t.Fatalf("no %s in %s (run the tests with make test-all, which builds it)", name, local.BinariesVariable)
	}
	return found
}

// Dir is a working directory.
type Dir struct {
	testing.TB
	// Path is the path of the directory.
	Path string
	// Variables are environment variables, as NAME=VALUE, that the program gets in addition to those of this process.
	Variables []string

	program string
}

// New creates a working directory for a program, with a configuration. It uses the provider of this tree.
func New(t testing.TB, program, configuration string) *Dir {
	t.Helper()
	d := &Dir{TB: t, Path: t.TempDir(), program: Program(t, program)}
	d.SetConfiguration(configuration)
	d.Write("terraform.rc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"breakwater-k8s/breakwater\" = %q\n  }\n  direct {}\n}\n",
		Provider(t)))
	return d
}

// SetConfiguration replaces the configuration.
func (d *Dir) SetConfiguration(configuration string) {
	d.Helper()
	d.Write("main.tf", "terraform {\n  required_providers {\n    breakwater = { source = \"breakwater-k8s/breakwater\" }\n  }\n}\n"+configuration)
}

// Write writes a file in the directory.
func (d *Dir) Write(name, content string) {
	d.Helper()
	if err := os.WriteFile(filepath.Join(d.Path, name), []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
}

// Read returns the content of a file in the directory.
func (d *Dir) Read(name string) string {
	d.Helper()
	content, err := os.ReadFile(filepath.Join(d.Path, name))
	if err != nil {
		d.Fatal(err)
	}
	return string(content)
}

// Run runs a command of the program and returns its output. It fails the test if the command fails.
func (d *Dir) Run(arguments ...string) string {
	d.Helper()
	out, err := d.Try(arguments...)
	if err != nil {
		d.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}

// Try is Run for commands that may fail. It also works after the test has ended, so that the cleanup can destroy resources.
func (d *Dir) Try(arguments ...string) (string, error) {
	out, err := d.command(arguments...).CombinedOutput()
	return string(out), err
}

func (d *Dir) command(arguments ...string) *exec.Cmd {
	command := exec.CommandContext(context.Background(), d.program, arguments...)
	command.Dir = d.Path
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(d.Path, "terraform.rc"),
		"CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color")
	command.Env = append(command.Env, d.Variables...)
	return command
}

// provider is the built provider, which the tests of a package share.
//
//nolint:gochecknoglobals // tests have no other place to share something expensive
var provider struct {
	sync.Once
	folder string
	err    error
}

// Provider returns the directory of the provider's program. The first call builds it; Clear removes it.
func Provider(t testing.TB) string {
	t.Helper()
	provider.Do(func() {
		if provider.folder, provider.err = os.MkdirTemp("", "terraform-provider-breakwater-"); provider.err != nil {
			return
		}
		provider.err = binaries.Build(context.Background(), filepath.Join(provider.folder, "terraform-provider-breakwater"), binaries.TerraformProvider)
	})
	if provider.err != nil {
		t.Fatal(provider.err)
	}
	return provider.folder
}

// RemoveProvider removes what Provider built. Call it at the end of TestMain.
func RemoveProvider() error {
	if provider.folder == "" {
		return nil
	}
	return os.RemoveAll(provider.folder)
}
