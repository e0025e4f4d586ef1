// Package image creates the container image of Breakwater for several platforms, without a container engine. The image contains static
// programs, the user that runs them, and their SBOMs.
package image

import (
	"bytes"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
	"github.com/breakwater-k8s/breakwater/hack/release/build"
)

const (
	// user runs the program: a UID that exists on no host, and a number, so that the kubelet can verify that it is not root.
	user = "65532"
	// Main is the program that the image runs by default.
	Main = "breakwater"
	// Node is the node guard.
	Node = "breakwater-node"
	// sbomFolder is where scanners look for an image's SBOMs.
	sbomFolder = "var/lib/db/sbom/"
)

// Program is a program of the image.
type Program struct {
	Name          string
	Content, SBOM []byte
}

// SBOMPath returns the path of a program's SBOM in the image.
func SBOMPath(program string) string { return sbomFolder + program + ".cdx.json" }

// Platform is the image for one platform.
type Platform struct {
	v1.Image
	platform *v1.Platform
}

// New creates the image for a platform from its programs.
func New(programs []Program, p build.Platform, version string, at time.Time) (Platform, error) {
	platform := &v1.Platform{OS: p.OS, Architecture: p.Arch}
	files := []archive.File{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/group", Mode: 0o444, Content: []byte("nonroot:x:" + user + ":\n")},
		{Name: "etc/passwd", Mode: 0o444, Content: []byte("nonroot:x:" + user + ":" + user + ":nonroot:/:/nonexistent\n")},
		{Name: "tmp/", Mode: 0o777 | fs.ModeSticky},
		{Name: "var/", Mode: 0o755}, {Name: "var/lib/", Mode: 0o755}, {Name: "var/lib/db/", Mode: 0o755}, {Name: sbomFolder, Mode: 0o755},
	}
	for _, one := range programs {
		files = append(files, archive.File{Name: one.Name, Mode: 0o555, Content: one.Content}, archive.File{Name: SBOMPath(one.Name), Mode: 0o444, Content: one.SBOM})
	}
	layer, err := layerOf(at, files...)
	if err != nil {
		return Platform{}, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: v1.Time{Time: at}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user + ":" + user, Entrypoint: []string{"/" + Main}, WorkingDir: "/", Env: []string{"PATH=/"},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "Breakwater",
				"org.opencontainers.image.description": "Keeps Kubernetes services alive through deletion storms.",
				"org.opencontainers.image.source":      "https://github.com/breakwater-k8s/breakwater",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     version,
				"org.opencontainers.image.created":     at.Format(time.RFC3339),
			},
		},
	})
	if err != nil {
		return Platform{}, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "hack/release", Comment: "the programs and their SBOMs"},
	})
	return Platform{Image: image, platform: platform}, err
}

// Index returns the image of all platforms.
func Index(images []Platform) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image.Image, Descriptor: v1.Descriptor{Platform: image.platform}})
	}
	return index
}

// layerOf creates a layer of files.
func layerOf(at time.Time, files ...archive.File) (v1.Layer, error) {
	var packed bytes.Buffer
	if err := archive.Tar(&packed, at, files...); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}
