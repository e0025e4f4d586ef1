// Command plugin builds kubectl-breakwater for all platforms, packs each, and writes the manifest for krew.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

type platform struct{ os, arch string }

func platforms() []platform {
	return []platform{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
	}
}

// program returns the file name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "kubectl-breakwater.exe"
	}
	return "kubectl-breakwater"
}

// archive returns the file name of the archive.
func (p platform) archive(version string) string {
	end := ".tar.gz"
	if p.os == "windows" {
		end = ".zip"
	}
	return fmt.Sprintf("kubectl-breakwater_%s_%s_%s%s", version, p.os, p.arch, end)
}

func main() {
	version := flag.String("version", "", "version as of git describe")
	dir := flag.String("dir", "plugin", "directory to write to")
	base := flag.String("base", "", "base URL of the archives; empty: that of the release on GitHub")
	only := flag.String("only", "", "build only for this platform, as linux/amd64, and write no manifest")
	flag.Parse()
	if err := run(*version, *dir, *base, *only); err != nil {
		fmt.Fprintln(os.Stderr, "hack/plugin:", err)
		os.Exit(1)
	}
}

func run(described, dir, base, only string) error {
	version := semanticVersion(described)
	if base == "" {
		base = "https://github.com/breakwater-k8s/breakwater/releases/download/" + version
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var built []packed
	for _, p := range platforms() {
		if only != "" && only != p.os+"/"+p.arch {
			continue
		}
		one, err := build(p, version, dir)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
		fmt.Printf("%s  %s\n", one.sha256, one.name) //nolint:forbidigo // the output lists the archives
		built = append(built, one)
	}
	if len(built) == 0 {
		return fmt.Errorf("-only %s: unsupported platform", only)
	}
	var sums strings.Builder
	for _, one := range built {
		fmt.Fprintf(&sums, "%s  %s\n", one.sha256, one.name)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil || only != "" {
		return err
	}
	text, err := yaml.Marshal(manifestOf(version, base, built))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "breakwater.yaml"), text, 0o644)
}

func build(p platform, version, dir string) (packed, error) {
	work, err := os.MkdirTemp("", "breakwater-plugin-")
	if err != nil {
		return packed{}, err
	}
	defer os.RemoveAll(work)
	path := filepath.Join(work, p.program())
	command := exec.Command("go", "build", "-trimpath", "-o", path,
		"-ldflags", "-s -w -X github.com/breakwater-k8s/breakwater/internal/telemetry/version.Version="+version, "./cmd/kubectl-breakwater")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := command.CombinedOutput(); err != nil {
		return packed{}, fmt.Errorf("build: %w\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	license, closeErr := os.ReadFile("LICENSE")
	if err := errors.Join(err, closeErr); err != nil {
		return packed{}, err
	}
	archive, err := pack(p, []file{{p.program(), 0o755, program}, {"LICENSE", 0o644, license}})
	if err != nil {
		return packed{}, err
	}
	one := packedAs(p, version, archive)
	return one, os.WriteFile(filepath.Join(dir, one.name), archive, 0o644)
}
