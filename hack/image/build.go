package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// user runs the program: a UID that exists on no host, and a number, so that the kubelet can verify that it is not root.
	user = "65532"
	// sbomPath is where scanners look for an image's SBOM.
	sbomPath = "var/lib/db/sbom/breakwater.cdx.json"
)

type platformImage struct {
	v1.Image
	platform *v1.Platform
	// materials is the SBOM of the program, a CycloneDX document.
	materials []byte
}

// file is an entry of the image's only layer. An entry without content is a directory.
type file struct {
	name    string
	mode    fs.FileMode
	content []byte
}

func build(program string, platform *v1.Platform, version string, at time.Time) (platformImage, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return platformImage{}, err
	}
	materials, err := materialsOf(program, version, at)
	if err != nil {
		return platformImage{}, err
	}
	layer, err := layerOf(at,
		file{name: "breakwater", mode: 0o555, content: binary},
		file{name: "etc/", mode: 0o755},
		file{name: "etc/group", mode: 0o444, content: []byte("nonroot:x:" + user + ":\n")},
		file{name: "etc/passwd", mode: 0o444, content: []byte("nonroot:x:" + user + ":" + user + ":nonroot:/:/nonexistent\n")},
		file{name: "tmp/", mode: 0o777 | fs.ModeSticky},
		file{name: "var/", mode: 0o755}, file{name: "var/lib/", mode: 0o755}, file{name: "var/lib/db/", mode: 0o755},
		file{name: "var/lib/db/sbom/", mode: 0o755},
		file{name: sbomPath, mode: 0o444, content: materials},
	)
	if err != nil {
		return platformImage{}, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: v1.Time{Time: at}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user + ":" + user, Entrypoint: []string{"/breakwater"}, WorkingDir: "/", Env: []string{"PATH=/"},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "Breakwater",
				"org.opencontainers.image.description": "Keeps Kubernetes services alive through deletion storms.",
				"org.opencontainers.image.version":     version,
				"org.opencontainers.image.created":     at.Format(time.RFC3339),
			},
		},
	})
	if err != nil {
		return platformImage{}, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "hack/image", Comment: "the program and its SBOM"},
	})
	return platformImage{Image: image, platform: platform, materials: materials}, err
}

// layerOf creates a layer of files that root owns.
func layerOf(at time.Time, files ...file) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.content)), Mode: int64(f.mode.Perm()), ModTime: at, Format: tar.FormatPAX,
		}
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if f.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}
