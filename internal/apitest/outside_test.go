// Package apitest_test tests the module in api/ as programs outside of this repository use it.
package apitest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutsideProgramNeedsOnlyTheModuleOfTheAPI builds the example of the sharding library as a program of another module. It needs none of the
// dependencies of Breakwater's components.
func TestOutsideProgramNeedsOnlyTheModuleOfTheAPI(t *testing.T) {
	const module = "github.com/breakwater-k8s/breakwater/api"
	api, err := filepath.Abs("../../api")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.Command("go", arguments...)
		command.Dir, command.Env = folder, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
		return string(out)
	}
	sources, err := filepath.Glob(filepath.Join(api, "sharding", "example", "*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("got no sources of the example: %v", err)
	}
	for _, source := range append(sources, filepath.Join(api, "go.sum")) {
		content, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(source)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run("mod", "init", "example.com/controller")
	run("mod", "edit", "-require="+module+"@v0.0.0", "-replace="+module+"="+api)
	run("build", "-o", filepath.Join(folder, "controller"), ".")

	linked := run("version", "-m", filepath.Join(folder, "controller"))
	if !strings.Contains(linked, "\t"+module+"\t") || strings.Contains(linked, "\tgithub.com/breakwater-k8s/breakwater\t") {
		t.Errorf("got linked modules\n%s\nwant that of the API, and not the main module of Breakwater", linked)
	}
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	published, err := os.ReadFile(filepath.Join(api, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(goMod)) {
		if name, version, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " v"); ok && line[0] == '\t' && name != module && !strings.Contains(string(published), "\t"+name+" v") {
			t.Errorf("the program requires %s %s, which the module of the API does not require", name, version)
		}
	}
	if strings.Contains(string(published), "replace") {
		t.Error("go.mod of the API replaces modules, which has no effect in other modules")
	}
}
