package kind_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// repository includes a host name: containerd does not complete the names in archives, and a kubelet uses full names.
const repository = "localhost/breakwater"

// image is one version of Breakwater's image.
type image struct{ tag, archive string }

// buildImages builds the version that is installed first, and the version of the upgrade.
func buildImages(t *testing.T) []image {
	t.Helper()
	var built []image
	for _, tag := range []string{"0.0.0-e2e.1", "0.0.0-e2e.2"} {
		folder := t.TempDir()
		build := exec.CommandContext(t.Context(), "go", "run", "./hack/release", "-only", "image",
			"-image", repository, "-version", tag, "-platforms", "linux/"+runtime.GOARCH, "-out", folder)
		build.Dir, build.Env = repositoryRoot(t), os.Environ()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the image: %v\n%s", err, out)
		}
		built = append(built, image{tag: tag, archive: filepath.Join(folder, "image.tar")})
	}
	return built
}
