// Package registry writes OCI archives and pushes them to a registry.
package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
)

// nameAnnotation has the name by which containerd, and so kind, stores an image.
const nameAnnotation = "io.containerd.image.name"

// Artifact is an image or a chart of an archive.
type Artifact struct {
	// Name is the full name with a tag.
	Name string
	mutate.Appendable
}

// WriteArchive writes an OCI archive of artifacts.
func WriteArchive(out string, at time.Time, artifacts ...Artifact) (err error) {
	folder, err := os.MkdirTemp("", "breakwater-oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		named := layout.WithAnnotations(map[string]string{nameAnnotation: a.Name, "org.opencontainers.image.ref.name": a.Name})
		switch content := a.Appendable.(type) {
		case v1.ImageIndex:
			err = path.AppendIndex(content, named)
		case v1.Image:
			err = path.AppendImage(content, named)
		default:
			err = fmt.Errorf("%s is neither an image nor an index", a.Name)
		}
		if err != nil {
			return err
		}
	}
	files, err := archive.Folder(folder)
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(archive.Tar(file, at, files...), file.Close())
}

// ReadArchive returns the artifacts of an OCI archive, which it unpacks into a folder.
func ReadArchive(path, folder string) (all []Artifact, err error) {
	files, err := archive.Read(path)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		at := filepath.Join(folder, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, f.Content, 0o600)); err != nil {
			return nil, err
		}
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("%s is not an OCI archive: %w", path, err)
	}
	listed, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range listed.Manifests {
		a := Artifact{Name: m.Annotations[nameAnnotation]}
		if m.MediaType.IsIndex() {
			a.Appendable, err = index.ImageIndex(m.Digest)
		} else {
			a.Appendable, err = index.Image(m.Digest)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
