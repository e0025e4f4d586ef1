package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/breakwater-k8s/breakwater/hack/release/build"
	"github.com/breakwater-k8s/breakwater/hack/release/registry"
)

const imageName = "registry.example/breakwater:1.2.3"

const sbom = `{"bomFormat": "CycloneDX"}`

// sample creates an archive for two platforms.
func sample(t *testing.T, out string, at time.Time) v1.Hash {
	t.Helper()
	programs := []Program{{Node, []byte("of nodes"), []byte(sbom)}, {Main, []byte("program"), []byte(sbom)}}
	var images []Platform
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := New(programs, build.Platform{OS: "linux", Arch: architecture}, "v1.2.3", at)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	index := Index(images)
	if err := registry.WriteArchive(out, at, registry.Artifact{Name: imageName, Appendable: index}); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestArchiveHasTheImagesOfAllPlatforms(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "breakwater.tar")
	digest := sample(t, archive, time.Unix(1_800_000_000, 0))
	artifacts, err := registry.ReadArchive(archive, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(artifacts) != 1 || artifacts[0].Name != imageName {
		t.Fatalf("the archive has %+v, want one index by its name", artifacts)
	}
	all, ok := artifacts[0].Appendable.(v1.ImageIndex)
	if got, err := all.Digest(); !ok || err != nil || got != digest {
		t.Fatalf("the digest is %s, error %v, want %s", got, err, digest)
	}
	if err := validate.Index(all); err != nil {
		t.Error(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := all.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		wantImage(t, image, m.Platform)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %v, want %v", platforms, want)
	}
}

func wantImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != platform.Architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/breakwater"}) ||
		config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("the configuration for %s is %+v", platform, config)
	}
	modes, contents := map[string]int64{}, map[string][]byte{}
	for r := tar.NewReader(mutate.Extract(image)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d, want root: the user of the program must not be able to change it", header.Name, header.Uid, header.Gid)
		}
		modes[strings.TrimSuffix(header.Name, "/")] = header.Mode
		if contents[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{
		"breakwater": 0o555, "breakwater-node": 0o555, "etc": 0o755, "etc/group": 0o444, "etc/passwd": 0o444, "tmp": 0o1777,
		"var": 0o755, "var/lib": 0o755, "var/lib/db": 0o755, "var/lib/db/sbom": 0o755, SBOMPath(Main): 0o444, SBOMPath(Node): 0o444,
	}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("files of the image for %s (-want +got):\n%s", platform, diff)
	}
	for program, content := range map[string]string{Main: "program", Node: "of nodes"} {
		if string(contents[program]) != content || string(contents[SBOMPath(program)]) != sbom {
			t.Errorf("the image for %s has the program %q and the SBOM %q, want %q and %q", platform, contents[program], contents[SBOMPath(program)], content, sbom)
		}
	}
}

func TestBuildIsReproducible(t *testing.T) {
	first, second, later := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2"), filepath.Join(t.TempDir(), "3")
	at := time.Unix(1_800_000_000, 0)
	sample(t, first, at)
	sample(t, second, at)
	sample(t, later, at.Add(time.Second))
	read := func(path string) []byte {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if !bytes.Equal(read(first), read(second)) {
		t.Error("two archives of the same source differ")
	}
	if bytes.Equal(read(first), read(later)) {
		t.Error("archives of two commits are equal, want them to contain the commit times")
	}
}
