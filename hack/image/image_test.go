package main

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

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// sample creates an archive for two platforms, with this test binary as the program.
func sample(t *testing.T, out string, at time.Time) v1.Hash {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var images []platformImage
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := build(program, &v1.Platform{OS: "linux", Architecture: architecture}, "v1.2.3", at)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	digest, err := writeArchive(out, "breakwater:v1.2.3", images, at)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// unpack reads an archive.
func unpack(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	raw, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, filepath.FromSlash(header.Name))
		content, err := io.ReadAll(r)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestArchiveHasTheImagesOfAllPlatforms(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "breakwater.tar")
	digest := sample(t, archive, time.Unix(1_800_000_000, 0))
	index := unpack(t, archive)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	listed, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(listed.Manifests) != 1 || listed.Manifests[0].Digest != digest || listed.Manifests[0].Annotations["io.containerd.image.name"] != "breakwater:v1.2.3" {
		t.Fatalf("the archive lists %+v, want one index by its name", listed.Manifests)
	}
	all, err := index.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
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
		"breakwater": 0o555, "etc": 0o755, "etc/group": 0o444, "etc/passwd": 0o444, "tmp": 0o1777,
		"var": 0o755, "var/lib": 0o755, "var/lib/db": 0o755, "var/lib/db/sbom": 0o755, sbomPath: 0o444,
	}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("files of the image for %s (-want +got):\n%s", platform, diff)
	}
	document := cdx.BOM{}
	if err := cdx.NewBOMDecoder(bytes.NewReader(contents[sbomPath]), cdx.BOMFileFormatJSON).Decode(&document); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range *document.Components {
		urls = append(urls, strings.Split(c.PackageURL, "@")[0])
	}
	for _, module := range []string{"pkg:golang/std", "pkg:golang/github.com/google/go-containerregistry"} {
		if !slices.Contains(urls, module) {
			t.Errorf("the SBOM has %v, want it to contain %s", urls, module)
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

func TestInvalidTimeIsAnError(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := sourceTime(t.Context()); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("error %v, want one about SOURCE_DATE_EPOCH", err)
	}
}

func TestInvalidPlatformIsAnError(t *testing.T) {
	for _, list := range []string{"", "linux", "linux/amd64,", "a/b/c/d"} {
		if all, err := parsePlatforms(list); err == nil || !strings.Contains(err.Error(), "-platforms") {
			t.Errorf("%q: %v, error %v", list, all, err)
		}
	}
}
