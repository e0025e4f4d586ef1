package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// cli is a folder in which Terraform runs as users run it, with the provider as it is installed: a program of its own.
type cli struct {
	testing.TB
	dir, program string
}

// commandLine makes a folder with a configuration for a program, terraform or tofu. Nothing is fetched from a registry.
func commandLine(t testing.TB, name, config string) *cli {
	t.Helper()
	c := &cli{TB: t, dir: t.TempDir(), program: program(t, name)}
	c.write("main.tf", `terraform {
  required_providers {
    breakwater = { source = "breakwater-k8s/breakwater" }
  }
}
`+config)
	c.write("terraform.rc", fmt.Sprintf(`provider_installation {
  dev_overrides {
    "breakwater-k8s/breakwater" = %q
  }
  direct {}
}
`, filepath.Dir(built(t))))
	return c
}

func (c *cli) write(name, content string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

// run runs a command of the program, and fails when that does.
func (c *cli) run(arguments ...string) string {
	c.Helper()
	out, err := c.try(arguments...)
	if err != nil {
		c.Fatalf("%s: %v\n%s", arguments, err, out)
	}
	return out
}

func (c *cli) try(arguments ...string) (string, error) {
	command := exec.CommandContext(context.Background(), c.program, arguments...)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(c.dir, "terraform.rc"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"TF_CLI_ARGS=-no-color")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

var (
	building   sync.Once
	binary     string
	buildError error
)

// built is the provider's program, built once for all tests.
func built(t testing.TB) string {
	t.Helper()
	building.Do(func() {
		var folder string
		if folder, buildError = os.MkdirTemp("", "terraform-provider-breakwater"); buildError != nil {
			return
		}
		binary = filepath.Join(folder, "terraform-provider-breakwater")
		out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "..").CombinedOutput()
		if err != nil {
			buildError = fmt.Errorf("%w: %s", err, out)
		}
	})
	if buildError != nil {
		t.Fatalf("build the provider: %v", buildError)
	}
	return binary
}
