package kind_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// repository is the chart's default repository, which no node of these tests can reach.
const repository = "ghcr.io/breakwater-k8s/breakwater"

// image is one version of Breakwater's image.
type image struct{ tag, archive string }

// The versions that are installed first, and by the upgrade.
const (
	firstVersion  = "0.0.0-e2e.1"
	secondVersion = "0.0.0-e2e.2"
)

// buildImages builds the image of both versions.
func buildImages(t *testing.T) []image {
	t.Helper()
	var built []image
	for _, tag := range []string{firstVersion, secondVersion} {
		folder := t.TempDir()
		buildRelease(t, "-only", "image", "-version", tag, "-out", folder)
		built = append(built, image{tag: tag, archive: filepath.Join(folder, "image.tar")})
	}
	return built
}

// buildRelease runs a part of make release, for the nodes' platform.
func buildRelease(t *testing.T, arguments ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", append([]string{"run", "./hack/release", "-platforms", "linux/" + runtime.GOARCH}, arguments...)...)
	build.Dir, build.Env = repositoryRoot(t), os.Environ()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %v: %v\n%s", arguments, err, out)
	}
}
