package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// testUser is a user with an empty home directory and no network.
type testUser struct {
	*testing.T
	variables []string
}

func newTestUser(t *testing.T, program string) *testUser {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(terraform.Program(t, program), filepath.Join(bin, program)); err != nil {
		t.Fatal(err)
	}
	p := &testUser{T: t, variables: []string{
		"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "KUBECONFIG=" + testplane.Kubeconfig(t),
		"TF_CLI_ARGS_apply=-auto-approve", "TF_CLI_ARGS_destroy=-auto-approve", "TF_CLI_ARGS_plan=-detailed-exitcode",
		"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9",
	}}
	// Go keeps its build and module caches, because it would otherwise have to fetch everything again.
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "CGO_ENABLED", "GOTOOLCHAIN"} {
		p.variables = append(p.variables, name+"="+p.run("", "go env "+name))
	}
	for _, said := range os.Environ() {
		name, _, _ := strings.Cut(said, "=")
		if strings.HasPrefix(name, "BREAKWATER_") || name == "LANG" || name == "TMPDIR" {
			p.variables = append(p.variables, said)
		}
	}
	return p
}

func (p *testUser) try(folder, line string) (string, error) {
	command := exec.CommandContext(context.Background(), "bash", "-c", line)
	command.Dir, command.Env = folder, p.variables
	if folder == "" {
		command.Env = os.Environ()
	}
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (p *testUser) run(folder, line string) string {
	p.Helper()
	out, err := p.try(folder, line)
	if err != nil {
		p.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// The commands in docs/how-to/terraform.md work without changes, for a user who is new to the provider and has no network.
func TestGuideCommands(t *testing.T) {
	const root = "../.."
	readExternal(t, "../../Makefile", "../../hack/terraform-install")
	_, section, _ := strings.Cut(read(t, filepath.Join(root, "docs/how-to/terraform.md")), "\n## A first configuration\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```(hcl|console)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 || blocks[0][1] != "hcl" || blocks[1][1] != "console" {
		t.Fatalf("the guide has no configuration and commands to paste: %v", blocks)
	}
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		p, folder := newTestUser(t, program), t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "main.tf"), []byte(blocks[0][2]), 0o600); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(blocks[1][2]) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			if strings.HasPrefix(line, "make ") {
				p.run(root, line)
			} else {
				p.run(folder, strings.ReplaceAll(line, "terraform ", program+" "))
			}
		}
		p.run(folder, program+" plan")
		if out, err := p.try(folder, program+" destroy"); err == nil || !strings.Contains(out, "protected from deletion") {
			t.Errorf("the guide says that a protector is not destroyed by accident: %v\n%s", err, out)
		}
	})
}

// Every output of git describe becomes a version that Terraform accepts without a version constraint, and later commits have
// higher versions. Only a prerelease needs a constraint.
func TestInstalledVersionIsValid(t *testing.T) {
	readExternal(t, "../../hack/terraform-install")
	p, folder := newTestUser(t, terraform.Terraform), t.TempDir()
	main := "terraform {\n  required_providers {\n    breakwater = { source = \"breakwater-k8s/breakwater\" }\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(folder, "main.tf"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ described, want string }{
		{"v0.2.0-rc.1", ""},
		{"2bdad3f", `0\.0\.20[0-9]{12}`},
		{"v0.2.0", `0\.2\.0`},
		{"v0.2.0-5-gabcdef1", `0\.2\.20[0-9]{12}`},
		{"v0.2.0-5-gabcdef1-dirty", `0\.2\.20[0-9]{12}`},
		{"v0.3.0", `0\.3\.0`},
	} {
		p.run("../..", "hack/terraform-install "+test.described)
		out, err := p.try(folder, "terraform init -upgrade -no-color")
		got := regexp.MustCompile(`Installed breakwater-k8s/breakwater v(\S+)`).FindStringSubmatch(out)
		switch {
		case test.want == "" && err == nil:
			t.Errorf("a prerelease was taken:\n%s", out)
		case test.want != "" && (got == nil || !regexp.MustCompile("^"+test.want+"$").MatchString(got[1])):
			t.Errorf("of %s %v was taken, want %s:\n%s", test.described, got, test.want, out)
		}
	}
}
